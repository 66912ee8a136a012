import type { Artifact, Checkpoint, Job } from '../api/types';
import {
  bytes,
  clock,
  count,
  int,
  lastSegment,
  loss,
  pathOf,
  words,
} from '../model/format';
import { Empty, Scroll } from '../ui/basics';
import { TryModel } from './try_model';

export function downloadAddress(artifact: string, file: string): string {
  return `/v1/${pathOf(artifact)}:download?path=${encodeURIComponent(file)}`;
}

export function JobModels({ job }: { job: Job }) {
  const models = [...(job.models ?? [])].reverse();
  const checkpoints = [...(job.checkpoints ?? [])].reverse();
  return (
    <>
      {models.length === 0 && (
        <Empty title="No model yet">
          <p>Models are exported when training reaches a target or ends.</p>
        </Empty>
      )}
      <div class="cards">
        {models.map((model) => (
          <ModelCard
            key={model.name}
            model={model}
            generates={job.spec?.model?.family === 'CAUSAL_LM'}
          />
        ))}
      </div>
      {checkpoints.length > 0 && <Checkpoints checkpoints={checkpoints} />}
    </>
  );
}

function ModelCard({
  model,
  generates,
}: {
  model: Artifact;
  generates: boolean;
}) {
  return (
    <section class="card">
      <h2>
        <code>{lastSegment(model.name)}</code>
      </h2>
      <p>
        validation loss {loss(model.validationLoss)},{' '}
        {count(int(model.sizeParameters))} parameters
        <br />
        <span class="muted">{clock(model.createTime)}</span>
      </p>
      <Files artifact={model} />
      {generates && model.name && <TryModel model={model.name} />}
    </section>
  );
}

export function Files({ artifact }: { artifact: Artifact }) {
  return (
    <ul class="files">
      {(artifact.files ?? []).map((file) => (
        <li key={file.path}>
          <a
            href={downloadAddress(artifact.name ?? '', file.path ?? '')}
            download={file.path}
          >
            {file.path}
          </a>
          <span class="muted">{bytes(int(file.sizeBytes))}</span>
        </li>
      ))}
    </ul>
  );
}

function Checkpoints({ checkpoints }: { checkpoints: Checkpoint[] }) {
  return (
    <section class="card">
      <h2>Checkpoints</h2>
      <Scroll label="Checkpoints">
        <table class="plain">
          <caption class="sr-only">Checkpoints, newest first</caption>
          <thead>
            <tr>
              <th scope="col">Step</th>
              <th scope="col">Stage</th>
              <th scope="col">Size</th>
              <th scope="col">Where</th>
              <th scope="col">Saved</th>
            </tr>
          </thead>
          <tbody>
            {checkpoints.map((one) => (
              <tr key={one.name ?? String(one.step)}>
                <th scope="row" class="number">
                  {count(int(one.step))}
                </th>
                <td>{words(one.stage)}</td>
                <td class="number">{bytes(int(one.sizeBytes))}</td>
                <td>
                  {(one.workers ?? []).join(', ')}
                  {one.durable ? ' + durable store' : ''}
                </td>
                <td>{clock(one.createTime)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}
