import { useEffect, useRef, useState } from 'preact/hooks';
import { post, request } from '../api/client';
import { ApiError, type Violation } from '../api/errors';
import type { Forecast, Job, JobSpec } from '../api/types';
import { fieldLine, toYaml } from '../model/job_file';
import { clock, int, pathOf } from '../model/format';
import { useStore } from '../model/store';
import { announce } from '../ui/announce';
import { Editor, goToLine } from '../ui/editor';
import { ErrorNote } from '../ui/basics';
import { navigate, route } from '../ui/navigation';
import template from './template.yaml?raw';

const EDITOR = 'job-file';
/** The largest job file that the server takes. */
const MOST_BYTES = 1 << 20;

interface Problem {
  field: string;
  text: string;
  line: number;
}

interface Checked {
  forecast: Forecast | null;
  processes: number;
}

/** The server's complaints, each with its line of the job file. */
export function problemsOf(error: ApiError, text: string): Problem[] {
  const found = error.violations.map((violation: Violation) => ({
    field: violation.field.replace(/^(spec\.|text$)/, ''),
    text: violation.description,
    line: violation.line || fieldLine(text, violation.field),
  }));
  if (found.length > 0) return found;
  return [{ field: '', text: error.message, line: 0 }];
}

export function SubmitPage() {
  const { query } = useStore(route);
  const like = query.get('like') ?? '';
  const [text, setText] = useState(like ? '' : template);
  // The name's ending tells the format; without one the server looks at the text.
  const [fileName, setFileName] = useState('');
  const [problems, setProblems] = useState<Problem[]>([]);
  const [error, setError] = useState<ApiError | null>(null);
  const [checked, setChecked] = useState<Checked | null>(null);
  const [busy, setBusy] = useState('');
  // The same text sent twice, after a lost answer, is the same job.
  const requestId = useRef({ text: '', id: '' });
  const list = useRef<HTMLDivElement>(null);

  useEffect(() => {
    document.title = 'Submit · comera';
  }, []);
  useEffect(() => {
    if (!like) return;
    request<Job>(`/v1/${pathOf(like)}`).then(
      (job) => setText(toYaml(job.spec ?? {})),
      (problem: unknown) =>
        setError(
          problem instanceof ApiError
            ? problem
            : new ApiError(0, String(problem)),
        ),
    );
  }, [like]);

  const edit = (next: string) => {
    setText(next);
    setChecked(null);
  };

  const run = async (submit: boolean) => {
    setBusy(submit ? 'Submitting…' : 'Checking…');
    setProblems([]);
    setError(null);
    setChecked(null);
    try {
      if (new Blob([text]).size > MOST_BYTES)
        throw new ApiError(400, 'A job file has at most 1 MiB.');
      const parsed = await post<{ spec?: JobSpec }>('/v1/jobs:parse', {
        text,
        ...(fileName ? { fileName } : {}),
      });
      const spec = parsed.spec ?? {};
      if (requestId.current.text !== text)
        requestId.current = { text, id: randomId() };
      const job = await post<Job>('/v1/jobs', {
        spec,
        ...(submit
          ? { requestId: requestId.current.id }
          : { validateOnly: true }),
      });
      if (submit && job.name) {
        announce('Submitted.');
        navigate(`/${pathOf(job.name)}`);
        return;
      }
      setChecked({
        forecast: job.forecast ?? null,
        processes: job.spec?.resources?.processes ?? 1,
      });
      announce('The job file is valid.');
    } catch (problem) {
      const failure =
        problem instanceof ApiError
          ? problem
          : new ApiError(0, String(problem));
      if (failure.status === 400) {
        const found = problemsOf(failure, text);
        setProblems(found);
        requestAnimationFrame(() => list.current?.focus());
      } else {
        setError(failure);
      }
    } finally {
      setBusy('');
    }
  };

  const open = async (file: File | undefined) => {
    if (!file) return;
    if (file.size > MOST_BYTES)
      setError(new ApiError(400, 'A job file has at most 1 MiB.'));
    else {
      setFileName(file.name);
      edit(await file.text());
    }
  };

  return (
    <>
      <div class="page-head">
        <h1>Submit a job</h1>
      </div>
      <form
        class="submit"
        onSubmit={(event) => {
          event.preventDefault();
          void run(true);
        }}
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          event.preventDefault();
          void open(event.dataTransfer?.files[0]);
        }}
      >
        <p class="muted">
          A job file in YAML, JSON or textproto. Drop a file here, or{' '}
          <label class="file-link">
            open one
            <input
              type="file"
              accept=".yaml,.yml,.json,.textproto,.txt"
              onChange={(event) => void open(event.currentTarget.files?.[0])}
            />
          </label>
          .
        </p>
        <Editor
          id={EDITOR}
          label="Job file"
          value={text}
          describedBy="problems"
          marks={problems
            .filter((p) => p.line > 0)
            .map((p) => ({ line: p.line, text: p.text }))}
          onInput={edit}
        />
        <div id="problems">
          {problems.length > 0 && (
            <div class="note error block" role="alert" tabIndex={-1} ref={list}>
              <strong>
                {problems.length === 1
                  ? 'One thing to put right'
                  : `${problems.length} things to put right`}
              </strong>
              <ul>
                {problems.map((problem, index) => (
                  <li key={index}>
                    {problem.line > 0 && (
                      <button
                        type="button"
                        class="quiet"
                        onClick={() => goToLine(EDITOR, problem.line)}
                      >
                        line {problem.line}
                      </button>
                    )}{' '}
                    {problem.field && <code>{problem.field}</code>}{' '}
                    {problem.text}
                  </li>
                ))}
              </ul>
            </div>
          )}
          {error && <ErrorNote error={error} />}
          {checked && <Valid checked={checked} />}
        </div>
        <div class="actions">
          <button
            type="button"
            disabled={busy !== ''}
            onClick={() => void run(false)}
          >
            Check
          </button>
          <button type="submit" class="primary" disabled={busy !== ''}>
            {busy || 'Submit'}
          </button>
        </div>
      </form>
    </>
  );
}

function Valid({ checked }: { checked: Checked }) {
  const { forecast } = checked;
  return (
    <div class="note good" role="status">
      <span>
        The job file is valid.{' '}
        {forecast &&
          (int(forecast.processesNow) > 0
            ? `It would start now with ${forecast.processesNow} of ${checked.processes} processes.`
            : `It would wait${forecast.blockedBy ? `: ${forecast.blockedBy}` : ''}${
                forecast.position ? `; ${forecast.position} jobs are ahead` : ''
              }${forecast.expectedStart ? `; expected start ${clock(forecast.expectedStart)}` : ''}.`)}
      </span>
    </div>
  );
}

function randomId(): string {
  const words = crypto.getRandomValues(new Uint32Array(4));
  return `web-${[...words].map((word) => word.toString(16).padStart(8, '0')).join('')}`;
}
