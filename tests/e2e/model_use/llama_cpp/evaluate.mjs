// Reads a GGUF file with llama.cpp and answers lines of JSON:
//   {"text": ...}  with {"ids": [...], "text": what the ids stand for}
//   {"ids": [...]} with {"logits": [[...], ...]}, a row for each id
//   {"ids": [...], "more": N} with {"ids": [...]}, the N most probable that
//       follow, each found with the cache of those before it
// With "vocabulary" as a third argument no tensors are read, for texts only.
// llama.cpp's own cache holds float32 here, so that logits may be compared.
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {dirname, join} from 'node:path';

const [installed, file, part] = process.argv.slice(2);
const folder = join(
    dirname(installed), 'node_modules/@node-llama-cpp/linux-x64/bins/linux-x64');
const llama = createRequire(installed)(join(folder, 'llama-addon.node'));
const kErrors = 2, kFloat32 = 0;
llama.setLogger((level, text) => process.stderr.write(text + '\n'));
llama.setLoggerLogLevel(kErrors);
llama.loadBackends(folder);
await llama.init();
const model = new llama.AddonModel(file, {
  addonExports: llama,
  gpuLayers: 0,
  useMmap: false,
  vocabOnly: part === 'vocabulary',
});
if (!await model.init()) throw new Error('llama.cpp does not read ' + file);

// Evaluates ids from a position on; the ids' logits.
async function evaluate(context, first, ids) {
  context.initBatch(ids.length);
  const places = context.addToBatch(
      0, first, Uint32Array.from(ids), Uint32Array.from(ids.keys()));
  await context.decodeBatch();
  const rows = [];
  for (const place of places) {
    const sampler = new llama.AddonSampler(model);
    sampler.applyConfig({temperature: 0});
    const [, , , pairs] =
        await context.sampleToken(place, sampler, false, false, true);
    const logits = [];
    for (let i = 0; i < pairs.length; i += 2) logits[pairs[i]] = pairs[i + 1];
    rows.push(logits);
    sampler.dispose();
  }
  return rows;
}

async function answer({text, ids, more}) {
  if (text !== undefined) {
    const found = model.tokenize(text, false);
    return {ids: Array.from(found), text: model.detokenize(found, false)};
  }
  const context = new llama.AddonContext(model, {
    contextSize: 256,
    batchSize: 256,
    sequences: 1,
    threads: 1,
    flashAttention: false,
    kvCacheKeyType: kFloat32,
    kvCacheValueType: kFloat32,
  });
  await context.init();
  const logits = await evaluate(context, 0, ids);
  const found = [];
  let last = logits.at(-1);
  while (found.length < (more ?? 0)) {
    found.push(last.indexOf(Math.max(...last)));
    const at = ids.length + found.length - 1;
    last = (await evaluate(context, at, [found.at(-1)]))[0];
  }
  await context.dispose();
  return more === undefined ? {logits} : {ids: found};
}

for (const line of readFileSync(0, 'utf8').split('\n')) {
  if (line !== '') console.log(JSON.stringify(await answer(JSON.parse(line))));
}
await model.dispose();
await llama.dispose();
