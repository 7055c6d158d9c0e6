// npm's libretranslate-ts.
import assert from "node:assert/strict";
import { libreTranslate } from "libretranslate-ts";

const { address, key, texts, text: word, letters } = JSON.parse(process.argv[2]);
libreTranslate.setApiEndpoint(address);
libreTranslate.setApiKey(key ?? "");
const answers = [];
for (const text of texts) answers.push((await libreTranslate.translate(text, "en", "fr")).translatedText);
for (const [language, written] of Object.entries(letters)) assert.equal((await libreTranslate.translate(word, "en", language)).translatedText, written);
const detected = await libreTranslate.detect(texts[0]);
assert.equal((Array.isArray(detected) ? detected[0] : detected).language, "en");
console.log(JSON.stringify(answers));
