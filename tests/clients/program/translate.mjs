// npm's translate, with its engine "libre".
import translate from "translate";

const { address, key, texts } = JSON.parse(process.argv[2]);
Object.assign(translate, { engine: "libre", url: `${address}/translate`, key: key ?? undefined });
const answers = [];
for (const text of texts) answers.push(await translate(text, { from: "en", to: "fr" }));
console.log(JSON.stringify(answers));
