import { useEffect, useState } from 'preact/hooks';
import { post } from '../api/client';
import { ApiError } from '../api/errors';
import { usePoll } from '../api/poll';
import type { Queue, WorkerSummary } from '../api/types';
import { age, lastSegment, pathOf } from '../model/format';
import type { Tone } from '../model/job_state';
import { TONE_SIGN } from '../model/job_state';
import { Dialog, Empty, ErrorNote, Loading, Scroll, Stat } from '../ui/basics';
import { useNow } from '../ui/clock';
import { Link } from '../ui/navigation';

export function ClusterPage() {
  const workers = usePoll<{ workers?: WorkerSummary[] }>('/v1/workers', 2000);
  const queues = usePoll<{ queues?: Queue[] }>('/v1/queues', 3000);
  const now = useNow(2000);
  useEffect(() => {
    document.title = 'Cluster · comera';
  }, []);
  const list = workers.data?.workers ?? [];
  const sum = (of: (worker: WorkerSummary) => number) =>
    list.reduce((total, w) => total + of(w), 0);
  const slots = sum((w) => w.slots ?? 0);
  return (
    <>
      <div class="page-head">
        <h1>Cluster</h1>
      </div>
      {workers.error && (
        <ErrorNote error={workers.error} retry={workers.refresh} />
      )}
      {!workers.data && !workers.error && <Loading what="workers" />}
      {workers.data && (
        <dl class="stats">
          <Stat
            label="Workers"
            value={`${list.filter((w) => w.connected).length}`}
            note={`connected of ${list.length}`}
          />
          <Stat
            label="Slots in use"
            value={`${sum((w) => w.busySlots ?? 0)}`}
            note={`of ${slots}`}
          />
          <Stat
            label="Unfit slots"
            value={`${sum((w) => w.unfitCount ?? 0)}`}
            note="take no member now"
          />
          <Stat
            label="GPUs"
            value={`${sum((w) => w.gpus?.length ?? 0)}`}
            note=""
          />
        </dl>
      )}
      {workers.data && list.length === 0 && (
        <Empty title="No workers">
          <p>
            Start one on every machine:{' '}
            <code>comera-worker --server HOST:PORT</code>. Jobs wait until then.
          </p>
        </Empty>
      )}
      <h2 class="sr-only">Workers</h2>
      <div class="cards">
        {list.map((worker) => (
          <WorkerCard
            key={worker.name}
            worker={worker}
            now={now}
            onChanged={workers.refresh}
          />
        ))}
      </div>
      <Queues queues={queues.data?.queues ?? []} slots={slots} />
    </>
  );
}

function health(worker: WorkerSummary): { tone: Tone; word: string } {
  if (!worker.connected) return { tone: 'bad', word: 'not connected' };
  if (worker.service === 'EXCLUDED') return { tone: 'bad', word: 'excluded' };
  if (worker.service === 'DRAINING') return { tone: 'warn', word: 'draining' };
  if (worker.service === 'DRAINED') return { tone: 'off', word: 'drained' };
  if ((worker.unfitCount ?? 0) > 0)
    return { tone: 'warn', word: 'partly unfit' };
  return { tone: 'good', word: 'in service' };
}

function WorkerCard({
  worker,
  now,
  onChanged,
}: {
  worker: WorkerSummary;
  now: number;
  onChanged: () => void;
}) {
  const [draining, setDraining] = useState(false);
  const [reason, setReason] = useState('');
  const [wait, setWait] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const id = lastSegment(worker.name);
  const { tone, word } = health(worker);
  const inService = (worker.service ?? 'IN_SERVICE') === 'IN_SERVICE';

  const act = async (verb: string, body: object) => {
    setError(null);
    setDraining(false);
    try {
      await post(`/v1/${pathOf(worker.name ?? '')}:${verb}`, body);
      onChanged();
    } catch (problem) {
      setError(
        problem instanceof ApiError
          ? problem
          : new ApiError(0, String(problem)),
      );
    }
  };

  return (
    <section class="card worker" aria-label={`Worker ${id}`}>
      <div class="section-head">
        <h3>{id}</h3>
        <span class={`badge ${tone}`}>
          <span aria-hidden="true">{TONE_SIGN[tone]}</span> {word}
        </span>
      </div>
      <p class="muted small">
        {[
          worker.host,
          worker.rack && `rack ${worker.rack}`,
          worker.version && `version ${worker.version}`,
        ]
          .filter(Boolean)
          .join(' · ')}
        {worker.lastSeen && ` · seen ${age(worker.lastSeen, now)} ago`}
      </p>
      <Slots worker={worker} />
      {(worker.gpus ?? []).length > 0 && (
        <p class="small">{gpuList(worker.gpus ?? [])}</p>
      )}
      {(worker.unfitSlots ?? []).length > 0 && (
        <ul class="small problems">
          {(worker.unfitSlots ?? []).map((text, index) => (
            <li key={index}>{text}</li>
          ))}
        </ul>
      )}
      {worker.serviceReason && <p class="small">{worker.serviceReason}</p>}
      {(worker.hardwareFailures ?? 0) > 0 && (
        <p class="small">
          {worker.hardwareFailures} hardware failures count against it.
        </p>
      )}
      {(worker.jobs ?? []).length > 0 && (
        <p class="small">
          Runs{' '}
          {(worker.jobs ?? []).map((job, index) => (
            <span key={job}>
              {index > 0 && ', '}
              <Link to={`/${pathOf(job)}`}>{lastSegment(job)}</Link>
            </span>
          ))}
        </p>
      )}
      <div class="actions">
        {inService ? (
          <button type="button" onClick={() => setDraining(true)}>
            Drain…<span class="sr-only"> {id}</span>
          </button>
        ) : (
          <button type="button" onClick={() => void act('resume', {})}>
            Resume<span class="sr-only"> {id}</span>
          </button>
        )}
      </div>
      {error && <ErrorNote error={error} />}
      <Dialog
        title={`Drain ${id}?`}
        open={draining}
        onClose={() => setDraining(false)}
      >
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void act('drain', { reason, wait });
          }}
        >
          <p>
            No more members start on it. Those that run there are checkpointed
            and moved.
          </p>
          <label class="field">
            Reason (optional)
            <input
              type="text"
              maxLength={500}
              value={reason}
              onInput={(event) => setReason(event.currentTarget.value)}
            />
          </label>
          <label class="check">
            <input
              type="checkbox"
              checked={wait}
              onChange={(event) => setWait(event.currentTarget.checked)}
            />
            Let its members finish instead
          </label>
          <div class="actions">
            <button type="button" onClick={() => setDraining(false)}>
              Keep it in service
            </button>
            <button type="submit" class="primary">
              Drain
            </button>
          </div>
        </form>
      </Dialog>
    </section>
  );
}

function gpuList(gpus: string[]): string {
  const counts = new Map<string, number>();
  for (const gpu of gpus) counts.set(gpu, (counts.get(gpu) ?? 0) + 1);
  return [...counts]
    .map(([name, n]) => (n > 1 ? `${n} × ${name}` : name))
    .join(', ');
}

function Slots({ worker }: { worker: WorkerSummary }) {
  const slots = worker.slots ?? 0;
  const busy = worker.busySlots ?? 0;
  const unfit = worker.unfitCount ?? 0;
  const text = `${busy} of ${slots} slots in use${unfit ? `, ${unfit} unfit` : ''}`;
  return (
    <p class="slots">
      <span class="cells" aria-hidden="true">
        {Array.from({ length: Math.min(slots, 32) }, (_, index) => (
          <i
            key={index}
            class={
              index < busy ? 'busy' : index >= slots - unfit ? 'unfit' : ''
            }
          />
        ))}
      </span>
      <span class="small">{text}</span>
    </p>
  );
}

function Queues({ queues, slots }: { queues: Queue[]; slots: number }) {
  if (queues.length === 0) return null;
  return (
    <section class="card">
      <h2>Queues</h2>
      <Scroll label="Queues">
        <table class="plain">
          <caption class="sr-only">
            Queues, their quotas and what they use
          </caption>
          <thead>
            <tr>
              <th scope="col">Queue</th>
              <th scope="col">Share of slots</th>
              <th scope="col">Processes</th>
              <th scope="col">Guaranteed</th>
              <th scope="col">At most</th>
              <th scope="col">Weight</th>
              <th scope="col">Running</th>
              <th scope="col">Waiting</th>
            </tr>
          </thead>
          <tbody>
            {queues.map((queue) => {
              const id = lastSegment(queue.name);
              const used = queue.runningProcesses ?? 0;
              return (
                <tr key={id}>
                  <th scope="row">
                    <Link to={`/jobs?queue=${encodeURIComponent(id)}`}>
                      {id}
                    </Link>
                  </th>
                  <td>
                    <span class="share" aria-hidden="true">
                      <i
                        class="used"
                        style={{
                          width: `${slots ? Math.min(100, (used / slots) * 100) : 0}%`,
                        }}
                      />
                      {queue.guaranteedProcesses && slots ? (
                        <i
                          class="mark"
                          style={{
                            left: `${Math.min(100, (queue.guaranteedProcesses / slots) * 100)}%`,
                          }}
                        />
                      ) : null}
                    </span>
                    <span class="sr-only">
                      {slots ? Math.round((used / slots) * 100) : 0}%
                    </span>
                  </td>
                  <td class="number">{used}</td>
                  <td class="number">{queue.guaranteedProcesses || '–'}</td>
                  <td class="number">{queue.maxProcesses || '–'}</td>
                  <td class="number">{queue.weight || 1}</td>
                  <td class="number">{queue.runningJobs ?? 0}</td>
                  <td class="number">{queue.queuedJobs ?? 0}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}
