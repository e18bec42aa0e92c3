-- wrk script: cycles through requests that were built beforehand (BENCH_REQUESTS: each one preceded by
-- a line with its length), so that nothing is formatted while the clock runs. Every thread takes its share
-- of them: with one connection per thread, a connection always speaks for the same session, as a client's
-- does. BENCH_PACE_MS, when given, is the mean pause of a connection before each request.
local requests, position, threads = {}, 0, 0

function setup(thread)
  thread:set("thread_number", threads)
  threads = threads + 1
end

function init()
  local count = tonumber(os.getenv("BENCH_THREADS"))
  local file, index = assert(io.open(os.getenv("BENCH_REQUESTS"), "rb")), 0
  for length in file:lines() do
    local request = file:read(tonumber(length))
    if index % count == thread_number then
      requests[#requests + 1] = request
    end
    index = index + 1
  end
  file:close()
  math.randomseed(thread_number + 1) -- else all threads would pause alike
end

function request()
  position = position % #requests + 1
  return requests[position]
end

local pace = tonumber(os.getenv("BENCH_PACE_MS") or "")
if pace then
  function delay()
    return math.random(1, 2 * pace - 1)
  end
end

function done(summary, latency)
  local failed = summary.errors
  io.write(string.format(
    '\nBENCH {"calls":%d,"seconds":%.6f,"p50_us":%.1f,"p99_us":%.1f,"failed":%d,"bytes":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99),
    failed.connect + failed.read + failed.write + failed.status + failed.timeout, summary.bytes))
end
