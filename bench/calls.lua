-- wrk script: cycles through requests that were built beforehand (BENCH_REQUESTS: each one preceded by
-- a line with its length), so that nothing is formatted while the clock runs. BENCH_PACE_MS, when given,
-- is the mean pause of a connection before each request: load below saturation.
local requests, position = {}, 0

function init()
  local file = assert(io.open(os.getenv("BENCH_REQUESTS"), "rb"))
  for length in file:lines() do
    requests[#requests + 1] = file:read(tonumber(length))
  end
  file:close()
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
