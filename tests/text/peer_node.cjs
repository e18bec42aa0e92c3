// Runs one converter from npm; jobs come as JSON lines, as for peer_python.py. The first argument is the name,
// the second the folder whose node_modules hold it.
const { createInterface } = require("node:readline");
const { createRequire } = require("node:module");
const { pathToFileURL } = require("node:url");

const [name, folder] = process.argv.slice(2);
const load = createRequire(`${folder}/package.json`);
const loadModule = (id) => import(pathToFileURL(load.resolve(id)).href);

const fromMdast = async () => {
  const { fromADF } = await loadModule("mdast-util-from-adf");
  const { toMarkdown } = await loadModule("mdast-util-to-markdown");
  const { gfmToMarkdown } = await loadModule("mdast-util-gfm");
  return (value) => toMarkdown(fromADF(value), { extensions: [gfmToMarkdown()] });
};

const PEERS = {
  marklassian: async () => ({ "markdown>adf": (await loadModule("marklassian")).markdownToAdf }),
  "adf-to-markdown": async () => ({ "adf>markdown": load("adf-to-markdown").convertADFToMarkdown }),
  "adf-to-md": async () => ({ "adf>markdown": (value) => load("adf-to-md").convert(value).result }),
  "mdast-util-from-adf": async () => ({ "adf>markdown": await fromMdast() }),
  "md-to-adf": async () => {
    const translate = load("md-to-adf");
    return { "markdown>adf": (value) => JSON.parse(JSON.stringify(translate(value))) };
  },
  jira2md: async () => {
    const package_ = load("jira2md");
    return { "wiki>markdown": package_.to_markdown, "markdown>wiki": package_.to_jira };
  },
  "atlaskit-markdown": async () => {
    const { MarkdownTransformer } = load("@atlaskit/editor-markdown-transformer");
    const { JSONTransformer } = load("@atlaskit/editor-json-transformer");
    const reader = new MarkdownTransformer();
    const json = new JSONTransformer();
    return { "markdown>adf": (value) => json.encode(reader.parse(value)) };
  },
  "atlaskit-wiki": async () => {
    const { WikiMarkupTransformer } = load("@atlaskit/editor-wikimarkup-transformer");
    const { JSONTransformer } = load("@atlaskit/editor-json-transformer");
    const wiki = new WikiMarkupTransformer();
    const json = new JSONTransformer();
    return {
      "wiki>adf": (value) => json.encode(wiki.parse(value)),
      "adf>wiki": (value) => wiki.encode(json.parse(value)),
    };
  },
};

const answer = (functions, job) => {
  const convert = functions[`${job.from}>${job.to}`];
  try {
    let best = Infinity;
    let out = null;
    for (let turn = 0; turn < job.times; turn += 1) {
      const start = process.cpuUsage();
      out = convert(job.value);
      const spent = process.cpuUsage(start);
      best = Math.min(best, (spent.user + spent.system) / 1e6);
    }
    return { out, seconds: best };
  } catch (error) {
    return { error: String(error).slice(0, 300) };
  }
};

const main = async () => {
  const write = process.stdout.write.bind(process.stdout);
  // Whatever a package prints must not be taken for an answer.
  process.stdout.write = process.stderr.write.bind(process.stderr);
  const functions = await PEERS[name]();
  write(`${JSON.stringify({ ready: Object.keys(functions) })}\n`);
  for await (const line of createInterface({ input: process.stdin })) {
    write(`${JSON.stringify(answer(functions, JSON.parse(line)))}\n`);
  }
};

main();
