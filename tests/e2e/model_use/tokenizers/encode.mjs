// Encodes texts with the tokenizers library, one a line of JSON:
// {"text": ..., "special": whether tokens are put around it}; prints
// {"ids": [...], "text": what the ids stand for} for each.
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';

const [installed, file] = process.argv.slice(2);
const {Tokenizer} = createRequire(installed)('tokenizers');
const tokenizer = Tokenizer.fromFile(file);
for (const line of readFileSync(0, 'utf8').split('\n')) {
  if (line === '') continue;
  const {text, pair, special} = JSON.parse(line);
  const encoding = await tokenizer.encode(
      text, pair ?? null, {addSpecialTokens: special});
  const ids = encoding.getIds();
  console.log(
      JSON.stringify({ids, text: await tokenizer.decode(ids, true)}));
}
