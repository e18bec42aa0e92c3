// The official TypeScript client, driven by the tests: one conversation, its outcome as JSON on stdout.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const [kind, ...rest] = process.argv.slice(2);
const transports = {
  http: () => new StreamableHTTPClientTransport(new URL(rest[0])),
  sse: () => new SSEClientTransport(new URL(rest[0] + "/sse")),
  stdio: () => new StdioClientTransport({ command: rest[0], args: rest.slice(1), env: process.env }),
};
const capabilities = { sampling: {}, elicitation: {}, roots: {} };
const client = new Client({ name: "typescript", version: "1" }, { capabilities });
const reply = { role: "assistant", content: { type: "text", text: "hi" }, model: "m" };
client.setRequestHandler(CreateMessageRequestSchema, () => reply);
client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept", content: { colour: "blue" } }));
client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: "file:///here", name: "here" }] }));
const changed = new Promise((done) => client.setNotificationHandler(ToolListChangedNotificationSchema, done));
const updated = new Promise((done) => client.setNotificationHandler(ResourceUpdatedNotificationSchema, done));

await client.connect(transports[kind]());
const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
const steps = [];
const outcome = { server: client.getServerVersion().name, tools: [] };
for (let cursor; ; ) {
  const page = await client.listTools(cursor ? { cursor } : {});
  outcome.tools.push(...page.tools.map((tool) => tool.name));
  cursor = page.nextCursor;
  if (!cursor) break;
}
outcome.echo = (await call("echo", { text: "hello" })).content[0].text;
// Paused: this client loses progress that it reads together with the answer.
await call("count", { steps: 3, pause: 0.05 }, { onprogress: (progress) => steps.push(progress.progress) });
outcome.progress = steps;
for (const question of ["elicitation", "sampling", "roots"]) {
  outcome[question] = (await call("ask", { kind: question })).structuredContent.heard;
}
const controller = new AbortController();
setTimeout(() => controller.abort(), 300);
outcome.cancelled = await call("wait", {}, { signal: controller.signal }).then(() => false, () => true);
await client.subscribeResource({ uri: "item://1" });
// Until the gateway's own streams are open nobody can hear, so the change is made again and again.
const retry = setInterval(() => call("change", { what: "tools" }).catch(() => {}), 200);
await changed;
clearInterval(retry);
await call("touch", { uri: "item://1" });
outcome.updated = (await updated).params.uri;
await client.close();
console.log(JSON.stringify(outcome));
process.exit(0);
