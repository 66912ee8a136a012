import { useEffect, useRef, useState } from 'preact/hooks';
import { LiveStream } from '../api/live_stream';
import { LIVE_START } from '../api/live_state';
import type { JobEvent, Outcome, WatchJobResponse } from '../api/types';
import { bytes, clock, count, int, loss, pathOf, short } from '../model/format';
import { failureText, isFinal, stateWord } from '../model/job_state';
import { Loading, Scroll, StateBadge } from '../ui/basics';

/** Lines kept; the oldest go first. */
const MOST = 2000;

interface Line {
  key: number;
  time: string;
  attempt: number;
  kind: string;
  state?: string;
  outcome?: Outcome;
  text: string;
}

function lineOf(event: JobEvent): Line | null {
  const base = {
    key: int(event.sequence),
    time: event.time ?? '',
    attempt: int(event.attempt),
  };
  if (event.stateChange) {
    const { state, outcome, reason } = event.stateChange;
    return {
      ...base,
      kind: 'state',
      text: reason ?? '',
      ...(state ? { state } : {}),
      ...(outcome ? { outcome } : {}),
    };
  }
  if (event.incident)
    return { ...base, kind: 'incident', text: failureText(event.incident) };
  if (event.runInfo) {
    const info = event.runInfo;
    return {
      ...base,
      kind: 'ready',
      // Programs of users' own do not tell how many samples they have.
      text: `${
        info.trainSamples ? `${count(int(info.trainSamples))} training samples, ` : ''
      }${count(int(info.initialParameters))} parameters (dense ${count(int(info.denseParameters))})`,
    };
  }
  if (event.paretoPoint) {
    const point = event.paretoPoint;
    return {
      ...base,
      kind: 'Pareto point',
      text: `step ${count(int(point.step))}: loss ${loss(point.validationLoss)} with ${short(
        int(point.sizeParameters),
      )} parameters`,
    };
  }
  if (event.checkpoint) {
    return {
      ...base,
      kind: 'checkpoint',
      text: `step ${count(int(event.checkpoint.step))}, ${bytes(int(event.checkpoint.sizeBytes))}`,
    };
  }
  if (event.result)
    return { ...base, kind: 'result', text: event.result.reason ?? '' };
  return null;
}

/** Everything that happened, from the beginning; figures and ranks are plots. */
export function JobEvents({ name }: { name: string }) {
  const lines = useRef<Line[]>([]);
  const [, setVersion] = useState(0);
  const [live, setLive] = useState(LIVE_START);
  const [kind, setKind] = useState('');

  useEffect(() => {
    lines.current = [];
    let over = false;
    let frame = 0;
    let last = 0;
    const stream = new LiveStream({
      address: () => `/v1/${pathOf(name)}:watch?afterSequence=${last}`,
      isOver: () => over,
      onState: setLive,
      onMessage: (message) => {
        // The job may have ended before all of its events have come.
        const { event } = JSON.parse(message.data) as WatchJobResponse;
        if (!event || int(event.sequence) <= last) return;
        last = int(event.sequence);
        if (isFinal(event.stateChange?.state)) over = true;
        const line = lineOf(event);
        if (!line) return;
        lines.current = [...lines.current.slice(-MOST), line];
        if (!frame) {
          frame = window.setTimeout(() => {
            frame = 0;
            setVersion((v) => v + 1);
          }, 100);
        }
      },
    });
    stream.start();
    return () => {
      stream.stop();
      clearTimeout(frame);
    };
  }, [name]);

  const kinds = [...new Set(lines.current.map((line) => line.kind))];
  const shown = lines.current
    .filter((line) => kind === '' || line.kind === kind)
    .reverse();
  return (
    <section class="card">
      <div class="section-head">
        <h2>What happened</h2>
        <label class="select">
          <span>Show</span>
          <select
            value={kind}
            onChange={(event) => setKind(event.currentTarget.value)}
          >
            <option value="">everything</option>
            {kinds.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
      </div>
      {shown.length === 0 && live.phase !== 'ended' && (
        <Loading what="events" />
      )}
      <Scroll label="Events">
        <table class="plain events">
          <caption class="sr-only">Events of the job, newest first</caption>
          <thead>
            <tr>
              <th scope="col">Time</th>
              <th scope="col">Attempt</th>
              <th scope="col">What</th>
              <th scope="col">Details</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((line) => (
              <tr
                key={line.key}
                class={line.kind === 'incident' ? 'bad' : undefined}
              >
                <td data-label="Time">
                  <time dateTime={line.time}>{clock(line.time)}</time>
                </td>
                <td class="number" data-label="Attempt">
                  {line.attempt || ''}
                </td>
                <td>
                  {line.state ? (
                    <StateBadge
                      state={line.state}
                      {...(line.outcome ? { outcome: line.outcome } : {})}
                    />
                  ) : (
                    <span>{stateWord(line.kind)}</span>
                  )}
                </td>
                <td>{line.text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}
