import { useState } from 'preact/hooks';
import { post, request } from '../api/client';
import { ApiError } from '../api/errors';
import type { Job } from '../api/types';
import { pathOf } from '../model/format';
import { allowed, displayName } from '../model/job_state';
import { address } from '../model/route';
import { Dialog, ErrorNote } from '../ui/basics';
import { navigate } from '../ui/navigation';

/** Jobs whose curves can be told apart on one plot. */
export const MOST_COMPARED = 6;

type Verb = 'pause' | 'resume' | 'cancel' | 'delete';

const CONFIRMED: Partial<Record<Verb, { title: string; text: string }>> = {
  cancel: {
    title: 'Cancel these jobs?',
    text: 'They save a checkpoint and their best model, and can be resumed.',
  },
  delete: {
    title: 'Delete these jobs?',
    text: 'Their events, logs, models and checkpoints go with them.',
  },
};

async function act(verb: Verb, job: Job): Promise<void> {
  const path = `/v1/${pathOf(job.name ?? '')}`;
  if (verb === 'delete') await request(path, { method: 'DELETE' });
  else await post(`${path}:${verb}`, {});
}

/** What can be done with the jobs that are ticked; nothing if none is. */
export function BulkActions({
  jobs,
  onDone,
}: {
  jobs: Job[];
  onDone: () => void;
}) {
  const [asking, setAsking] = useState<Verb | null>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState('');
  if (jobs.length === 0) return null;
  const may = (verb: Verb) =>
    jobs.filter((job) => {
      const actions = allowed(job);
      return verb === 'delete' ? actions.remove : actions[verb];
    });

  const run = async (verb: Verb) => {
    setAsking(null);
    setBusy(true);
    const failures: string[] = [];
    // One after the other: the service is shared.
    for (const job of may(verb)) {
      try {
        await act(verb, job);
      } catch (problem) {
        failures.push(
          `${displayName(job)}: ${
            problem instanceof ApiError ? problem.message : String(problem)
          }`,
        );
      }
    }
    setBusy(false);
    setError(failures.join('; '));
    if (failures.length === 0) onDone();
  };

  const button = (verb: Verb, label: string) => {
    const count = may(verb).length;
    if (count === 0) return null;
    return (
      <button
        type="button"
        class={CONFIRMED[verb] ? 'danger' : ''}
        disabled={busy}
        onClick={() => (CONFIRMED[verb] ? setAsking(verb) : void run(verb))}
      >
        {label} {count}
        {CONFIRMED[verb] ? '…' : ''}
      </button>
    );
  };
  const question = asking ? CONFIRMED[asking] : undefined;
  return (
    <div class="bulk" role="group" aria-label="Chosen jobs">
      <span role="status">
        {jobs.length} {jobs.length === 1 ? 'job' : 'jobs'} chosen
      </span>
      {jobs.length > 1 && jobs.length <= MOST_COMPARED && (
        <button
          type="button"
          onClick={() =>
            navigate(
              address('/compare', {
                job: jobs.map((job) =>
                  (job.name ?? '').replace(/^jobs\//, ''),
                ),
              }),
            )
          }
        >
          Compare curves
        </button>
      )}
      {button('pause', 'Pause')}
      {button('resume', 'Resume')}
      {button('cancel', 'Cancel')}
      {button('delete', 'Delete')}
      {error && <ErrorNote error={error} />}
      <Dialog
        title={question?.title ?? ''}
        open={question !== undefined}
        onClose={() => setAsking(null)}
      >
        <p>{question?.text}</p>
        <ul>
          {(asking ? may(asking) : []).map((job) => (
            <li key={job.name}>{displayName(job)}</li>
          ))}
        </ul>
        <div class="actions">
          <button type="button" onClick={() => setAsking(null)}>
            Leave them
          </button>
          <button
            type="button"
            class="danger"
            onClick={() => asking && void run(asking)}
          >
            {asking === 'delete' ? 'Delete' : 'Cancel the jobs'}
          </button>
        </div>
      </Dialog>
    </div>
  );
}
