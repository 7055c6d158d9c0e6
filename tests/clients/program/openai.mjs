// npm's openai: whole answers, streams, errors.
import assert from "node:assert/strict";
import OpenAI from "openai";

const { address, key, texts, text: word, letters } = JSON.parse(process.argv[2]);
const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: key ?? "none", maxRetries: 0 });
const asked = (content, more = {}) => ({ model: "en-fr", messages: [{ role: "user", content }], ...more });

const models = [];
for await (const { id } of await client.models.list()) models.push(id);
assert(models.includes("en-fr"));
const answers = [];
for (const text of texts) {
  const whole = await client.chat.completions.create(asked(text));
  let parts = "";
  for await (const chunk of await client.chat.completions.create(asked(text, { stream: true }))) parts += chunk.choices[0].delta.content ?? "";
  assert.equal(parts, whole.choices[0].message.content);
  answers.push(parts);
}
for (const [language, written] of Object.entries(letters)) {
  const model = `all:${language}`;
  assert(models.includes(model));
  assert.equal((await client.chat.completions.create(asked(word, { model }))).choices[0].message.content, written);
}
await assert.rejects(client.chat.completions.create(asked("a", { model: "en-f" })), (error) => error instanceof OpenAI.NotFoundError && error.code === "model_not_found");
await assert.rejects(client.chat.completions.create(asked("a", { n: 2 })), OpenAI.BadRequestError);
console.log(JSON.stringify(answers));
