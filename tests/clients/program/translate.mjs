// npm's translate, with its engine "libre".
import assert from "node:assert/strict";
import translate from "translate";

const { address, key, texts, text: word, letters } = JSON.parse(process.argv[2]);
Object.assign(translate, { engine: "libre", url: `${address}/translate`, key: key ?? undefined });
const answers = [];
for (const text of texts) answers.push(await translate(text, { from: "en", to: "fr" }));
for (const [to, written] of Object.entries(letters)) assert.equal(await translate(word, { from: "en", to }), written);
console.log(JSON.stringify(answers));
