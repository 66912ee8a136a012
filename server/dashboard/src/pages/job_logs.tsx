import { useEffect, useRef, useState } from 'preact/hooks';
import { LiveStream } from '../api/live_stream';
import { LIVE_START } from '../api/live_state';
import type { Job, ReadLogResponse } from '../api/types';
import { count, int, pathOf } from '../model/format';
import { decodeBytes, LogText } from '../model/log_text';
import { isFinal } from '../model/job_state';

export function JobLogs({ job }: { job: Job }) {
  const members = Math.max(1, job.spec?.resources?.processes ?? 1);
  const [rank, setRank] = useState(0);
  const [attempt, setAttempt] = useState(0);
  const [follow, setFollow] = useState(true);
  const [filter, setFilter] = useState('');
  const attempts = int(job.attempt);
  return (
    <section class="card">
      <div class="section-head">
        <h2>Logs</h2>
        <label class="select">
          <span>Member</span>
          <select
            value={rank}
            onChange={(event) => setRank(Number(event.currentTarget.value))}
          >
            {Array.from({ length: members }, (_, index) => (
              <option key={index} value={index}>
                {index}
              </option>
            ))}
          </select>
        </label>
        {attempts > 1 && (
          <label class="select">
            <span>Attempt</span>
            <select
              value={attempt}
              onChange={(event) => setAttempt(Number(event.currentTarget.value))}
            >
              <option value={0}>newest</option>
              {Array.from({ length: attempts }, (_, index) => (
                <option key={index} value={index + 1}>
                  {index + 1}
                </option>
              ))}
            </select>
          </label>
        )}
        <label class="field inline">
          <span class="sr-only">Only lines with</span>
          <input
            type="search"
            placeholder="Only lines with…"
            value={filter}
            onInput={(event) => setFilter(event.currentTarget.value)}
          />
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={follow}
            onChange={(event) => setFollow(event.currentTarget.checked)}
          />
          Follow
        </label>
      </div>
      <LogView
        key={`${rank}/${attempt}/${attempts}`}
        name={job.name ?? ''}
        rank={rank}
        attempt={attempt}
        final={isFinal(job.state)}
        follow={follow}
        filter={filter}
        onScrolledUp={() => setFollow(false)}
      />
    </section>
  );
}

interface LogViewProps {
  name: string;
  rank: number;
  attempt: number;
  final: boolean;
  follow: boolean;
  filter: string;
  onScrolledUp: () => void;
}

function LogView(props: LogViewProps) {
  const { name, rank, attempt, final } = props;
  const text = useRef(new LogText());
  const box = useRef<HTMLPreElement>(null);
  const [version, setVersion] = useState(0);
  const [live, setLive] = useState(LIVE_START);
  const isFinalNow = useRef(final);
  isFinalNow.current = final;

  useEffect(() => {
    text.current = new LogText();
    let offset = 0;
    let current = attempt;
    let frame = 0;
    const stream = new LiveStream({
      address: () => {
        const query = new URLSearchParams({
          rank: String(rank),
          follow: 'true',
        });
        if (current > 0) query.set('attempt', String(current));
        if (offset > 0) query.set('offset', String(offset));
        return `/v1/${pathOf(name)}:log?${query}`;
      },
      isOver: () => isFinalNow.current,
      mayCome: true,
      onState: setLive,
      onMessage: (message) => {
        const part = JSON.parse(message.data) as ReadLogResponse;
        text.current.push(decodeBytes(part.data ?? ''));
        // "attempt:offset", where reading goes on.
        const [, end] = message.id.split(':');
        offset = Number(end) || offset;
        if (part.attempt) current = int(part.attempt);
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
  }, [name, rank, attempt]);

  useEffect(() => {
    const element = box.current;
    if (props.follow && element) element.scrollTop = element.scrollHeight;
  }, [version, props.follow, props.filter]);

  const needle = props.filter.toLowerCase();
  const lines = needle
    ? text.current.all().filter((line) => line.toLowerCase().includes(needle))
    : text.current.all();
  const state =
    live.phase === 'refused' || (live.phase === 'waiting' && lines.length === 0)
      ? 'This member has no log yet.'
      : lines.length === 0
        ? needle
          ? 'No line has these words.'
          : live.phase === 'ended'
            ? 'The log is empty.'
            : 'Waiting for the first line…'
        : '';
  return (
    <>
      {text.current.dropped > 0 && (
        <p class="muted small">
          {count(text.current.dropped)} earlier lines are not shown;{' '}
          <code>comera logs</code> has all.
        </p>
      )}
      {state && <p class="note">{state}</p>}
      <pre
        class="log"
        ref={box}
        tabIndex={0}
        role="log"
        aria-label={`Log of member ${rank}`}
        aria-live="off"
        onWheel={(event) => {
          if (event.deltaY < 0) props.onScrolledUp();
        }}
      >
        {lines.join('\n')}
      </pre>
    </>
  );
}
