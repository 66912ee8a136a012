import { useEffect, useState } from 'preact/hooks';
import { request } from '../api/client';
import { ApiError } from '../api/errors';
import { usePoll } from '../api/poll';
import type { Dataset, DatasetDescription, Model } from '../api/types';
import { address } from '../model/route';
import {
  bytes,
  clock,
  count,
  int,
  lastSegment,
  loss,
  pathOf,
  short,
  times,
} from '../model/format';
import { useStore } from '../model/store';
import { Empty, ErrorNote, Labels, Loading } from '../ui/basics';
import { Link, navigate, route } from '../ui/navigation';
import { Files } from './job_models';

export function DataPage() {
  useEffect(() => {
    document.title = 'Data and models · comera';
  }, []);
  return (
    <>
      <div class="page-head">
        <h1>Data and models</h1>
      </div>
      <Datasets />
      <Models />
    </>
  );
}

function Pager({
  parameter,
  next,
}: {
  parameter: string;
  next: string | undefined;
}) {
  const { query } = useStore(route);
  const here = query.get(parameter);
  if (!here && !next) return null;
  return (
    <nav class="pager" aria-label={`Pages of ${parameter}`}>
      <button type="button" disabled={!here} onClick={() => history.back()}>
        Back
      </button>
      <button
        type="button"
        disabled={!next}
        onClick={() =>
          navigate(
            address('/data', {
              ...Object.fromEntries(query),
              [parameter]: next,
            }),
          )
        }
      >
        More
      </button>
    </nav>
  );
}

function Datasets() {
  const { query } = useStore(route);
  const token = query.get('datasets');
  const { data, error, refresh } = usePoll<{
    datasets?: Dataset[];
    nextPageToken?: string;
  }>(
    `/v1/datasets?pageSize=50${token ? `&pageToken=${encodeURIComponent(token)}` : ''}`,
    15000,
  );
  const datasets = data?.datasets ?? [];
  return (
    <section aria-labelledby="datasets">
      <h2 id="datasets">Datasets</h2>
      {error && <ErrorNote error={error} retry={refresh} />}
      {!data && !error && <Loading what="datasets" />}
      {data && datasets.length === 0 && (
        <Empty title="No datasets">
          <p>
            Upload one with <code>comera datasets upload NAME FILE...</code>
          </p>
        </Empty>
      )}
      <div class="cards">
        {datasets.map((dataset) => (
          <DatasetCard key={dataset.name} dataset={dataset} />
        ))}
      </div>
      <Pager parameter="datasets" next={data?.nextPageToken} />
    </section>
  );
}

function DatasetCard({ dataset }: { dataset: Dataset }) {
  const versions = [...(dataset.versions ?? [])].sort(
    (a, b) => int(b.number) - int(a.number),
  );
  const newest = versions[0];
  const [description, setDescription] = useState<DatasetDescription | null>(
    null,
  );
  const [error, setError] = useState<ApiError | null>(null);
  const describe = async () => {
    try {
      setDescription(
        await request<DatasetDescription>(
          `/v1/${pathOf(dataset.name ?? '')}:describe`,
        ),
      );
    } catch (problem) {
      setError(
        problem instanceof ApiError
          ? problem
          : new ApiError(0, String(problem)),
      );
    }
  };
  return (
    <section class="card">
      <h3>{lastSegment(dataset.name)}</h3>
      <p class="small">
        {newest &&
          `version ${int(newest.number)}: ${count(int(newest.fileCount))} files, ${bytes(int(newest.sizeBytes))}`}
        <br />
        <span class="muted">
          {clock(newest?.createTime ?? dataset.createTime)}
          {dataset.user && ` by ${dataset.user}`}
        </span>{' '}
        <Labels labels={dataset.labels} />
      </p>
      <details
        onToggle={(event) => {
          if (event.currentTarget.open && !description) void describe();
        }}
      >
        <summary>What is in it</summary>
        {error && <ErrorNote error={error} />}
        {!description && !error && <Loading what="the description" />}
        {description && (
          <ul class="files">
            {(description.files ?? []).map((file) => (
              <li key={file.path}>
                <span>{file.path}</span>
                <span class="muted">
                  {(file.format ?? 'other').toLowerCase()}
                  {file.gzip ? ', gzip' : ''}, {bytes(int(file.sizeBytes))}
                  {file.rows ? `, ${count(int(file.rows))} rows` : ''}
                  {file.problem ? `; ${file.problem}` : ''}
                </span>
              </li>
            ))}
          </ul>
        )}
      </details>
      {versions.length > 1 && (
        <details>
          <summary>{versions.length} versions</summary>
          <ul class="files">
            {versions.map((version) => (
              <li key={version.name}>
                <span>{int(version.number)}</span>
                <span class="muted">
                  {bytes(int(version.sizeBytes))}, {clock(version.createTime)}
                </span>
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

function Models() {
  const { query } = useStore(route);
  const token = query.get('models');
  const { data, error, refresh } = usePoll<{
    models?: Model[];
    nextPageToken?: string;
  }>(
    `/v1/models?pageSize=50${token ? `&pageToken=${encodeURIComponent(token)}` : ''}`,
    15000,
  );
  const models = data?.models ?? [];
  return (
    <section aria-labelledby="models">
      <h2 id="models">Models</h2>
      {error && <ErrorNote error={error} retry={refresh} />}
      {!data && !error && <Loading what="models" />}
      {data && models.length === 0 && (
        <Empty title="No models yet">
          <p>Every job that meets a target or completes leaves one here.</p>
        </Empty>
      )}
      {models.length > 0 && (
        <table class="jobs">
          <caption class="sr-only">Models, newest first</caption>
          <thead>
            <tr>
              <th scope="col">Model of</th>
              <th scope="col">Validation loss</th>
              <th scope="col">Parameters</th>
              <th scope="col">Than dense</th>
              <th scope="col">Files</th>
              <th scope="col">Created</th>
            </tr>
          </thead>
          <tbody>
            {models.map((model) => {
              const job = (model.name ?? '').split('/').slice(0, 2).join('/');
              const artifact = { ...model.artifact, name: model.name ?? '' };
              const size = int(model.artifact?.sizeParameters);
              return (
                <tr key={model.name}>
                  <th scope="row">
                    <Link to={`/${pathOf(job)}`} class="row-link">
                      {model.jobDisplayName || lastSegment(job)}
                    </Link>
                    <span class="sub">
                      <code>{lastSegment(model.name)}</code>
                      {model.paretoOptimal && (
                        <span
                          class="chip"
                          title="No other model of the job is both smaller and better"
                        >
                          best of its job
                        </span>
                      )}
                    </span>
                  </th>
                  <td class="number" data-label="Loss">
                    {loss(model.artifact?.validationLoss)}
                  </td>
                  <td class="number" data-label="Parameters">
                    {short(size)}
                  </td>
                  <td class="number" data-label="Than dense">
                    {times(int(model.denseParameters), size)
                      ? `${times(int(model.denseParameters), size)} smaller`
                      : '–'}
                  </td>
                  <td data-label="Files">
                    <Files artifact={artifact} />
                  </td>
                  <td data-label="Created">
                    {clock(model.artifact?.createTime)}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
      <Pager parameter="models" next={data?.nextPageToken} />
    </section>
  );
}
