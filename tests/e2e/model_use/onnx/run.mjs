// Answers lines of JSON, {"model": a file, "inputs": {...}}, with what the ONNX
// model computes, a line each, until its input ends. Inputs are rows of int64,
// {"name": [[...], ...]}, or floats, {"name": {"dims": [...], "data": [...]}}.
// The answer has the logits' "dims" and "data", and other outputs by name.
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {createInterface} from 'node:readline';

const ort = createRequire(process.argv[2])('onnxruntime-web');
ort.env.wasm.numThreads = 1;
let file = '', session = null;
for await (const line of createInterface({input: process.stdin})) {
  const {model, inputs} = JSON.parse(line);
  if (model !== file) {
    await session?.release();
    session = await ort.InferenceSession.create(
        readFileSync(model), {executionProviders: ['wasm']});
    file = model;
  }
  const feeds = {};
  for (const [name, value] of Object.entries(inputs)) {
    feeds[name] = Array.isArray(value) ?
        new ort.Tensor(
            'int64', BigInt64Array.from(value.flat(), BigInt),
            [value.length, value[0].length]) :
        new ort.Tensor('float32', Float32Array.from(value.data), value.dims);
  }
  const {logits, ...others} = await session.run(feeds);
  const answer = {dims: logits.dims, data: Array.from(logits.data)};
  for (const [name, {dims, data}] of Object.entries(others)) {
    answer[name] = {dims, data: Array.from(data)};
  }
  console.log(JSON.stringify(answer));
}
