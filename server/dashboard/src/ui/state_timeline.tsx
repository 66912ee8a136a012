import type { Job } from '../api/types';
import { clock, int, millis, span } from '../model/format';
import type { TimelineEntry } from '../model/job_follower';
import { failureText, isFinal, stateWord, tone } from '../model/job_state';
import { useNow } from './clock';

interface Part {
  state: string;
  from: number;
  to: number;
}

/** The states in the job's record; the Events view has all of them. */
export function parts(
  job: Job,
  timeline: readonly TimelineEntry[],
  now: number,
): Part[] {
  const begin = millis(job.createTime);
  if (begin === null) return [];
  const end = isFinal(job.state) ? (millis(job.endTime) ?? now) : now;
  const marks: { state: string; time: number }[] = [
    { state: 'QUEUED', time: begin },
  ];
  const start = millis(job.startTime);
  if (start !== null) marks.push({ state: 'RUNNING', time: start });
  for (const entry of timeline) {
    const time = millis(entry.time);
    if (entry.kind === 'state' && entry.state && time !== null)
      marks.push({ state: entry.state, time });
  }
  marks.sort((a, b) => a.time - b.time);
  const result: Part[] = [];
  marks.forEach((mark, index) => {
    if (isFinal(mark.state as Job['state'])) return;
    const next = marks[index + 1];
    const to = Math.min(end, next ? next.time : end);
    if (to > mark.time) result.push({ state: mark.state, from: mark.time, to });
  });
  return result;
}

export function StateTimeline({
  job,
  timeline,
}: {
  job: Job;
  timeline: readonly TimelineEntry[];
}) {
  const now = useNow();
  const all = parts(job, timeline, now);
  const first = all[0];
  const last = all[all.length - 1];
  if (!first || !last) return null;
  const whole = last.to - first.from;
  const incidents = job.incidents ?? [];
  return (
    <section class="timeline" aria-label="States over time">
      <div class="bar" aria-hidden="true">
        {all.map((part, index) => (
          <span
            key={index}
            class={`part ${tone(part.state)}`}
            style={{ flexGrow: Math.max(0.004, (part.to - part.from) / whole) }}
            title={`${stateWord(part.state)} for ${span((part.to - part.from) / 1000)}`}
          />
        ))}
        {incidents.map((incident, index) => {
          const at = millis(incident.time);
          if (at === null) return null;
          const share = Math.max(0, Math.min(1, (at - first.from) / whole));
          return (
            <span
              key={`i${index}`}
              class="incident"
              style={{ left: `${share * 100}%` }}
              title={failureText(incident)}
            />
          );
        })}
      </div>
      <ol class="parts">
        {all.map((part, index) => (
          <li key={index}>
            <i class={`dot ${tone(part.state)}`} aria-hidden="true" />
            {stateWord(part.state)} {span((part.to - part.from) / 1000)}
          </li>
        ))}
        {isFinal(job.state) && (
          <li>
            <i
              class={`dot ${tone(job.state, job.outcome)}`}
              aria-hidden="true"
            />
            {stateWord(job.state, job.outcome)} {clock(job.endTime)}
          </li>
        )}
      </ol>
      {incidents.length > 0 && (
        <details class="incidents">
          <summary>
            {incidents.length}{' '}
            {incidents.length === 1 ? 'incident' : 'incidents'} of earlier
            attempts
          </summary>
          <ol>
            {incidents.map((incident, index) => (
              <li key={index}>
                <time>{clock(incident.time)}</time> attempt{' '}
                {int(incident.attempt)}: {failureText(incident)}
                {incident.logTail && <pre tabIndex={0}>{incident.logTail}</pre>}
              </li>
            ))}
          </ol>
        </details>
      )}
    </section>
  );
}
