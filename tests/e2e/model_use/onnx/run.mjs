// Runs an ONNX model on rows of int64 inputs, one a line of JSON:
// {"name": [[...], ...], ...}; prints the logits as JSON lines.
import {createRequire} from 'node:module';
import {readFileSync} from 'node:fs';

const [installed, model] = process.argv.slice(2);
const ort = createRequire(installed)('onnxruntime-web');
ort.env.wasm.numThreads = 1;
const session = await ort.InferenceSession.create(
    readFileSync(model), {executionProviders: ['wasm']});
for (const line of readFileSync(0, 'utf8').split('\n')) {
  if (line === '') continue;
  const feeds = {};
  for (const [name, rows] of Object.entries(JSON.parse(line))) {
    feeds[name] = new ort.Tensor(
        'int64', BigInt64Array.from(rows.flat(), BigInt),
        [rows.length, rows[0].length]);
  }
  const {logits} = await session.run(feeds);
  console.log(JSON.stringify({dims: logits.dims, data: Array.from(logits.data)}));
}
