import { useEffect, useRef, useState } from 'preact/hooks';
import { request } from '../api/client';
import { ApiError } from '../api/errors';
import { returns } from '../api/connection';
import { LiveStream } from '../api/live_stream';
import { LIVE_START, type LiveState } from '../api/live_state';
import type { Job, JobSeries, WatchJobResponse } from '../api/types';
import { JobFollower, METRICS } from '../model/job_follower';
import { isFinal, stateWord } from '../model/job_state';
import { pathOf, snake } from '../model/format';
import { announce } from '../ui/announce';

/** Points of each series at first; dragging over a plot asks for all of them. */
const POINTS = 1500;
const ALL_POINTS = 10000;
const WANTED = METRICS.map((metric) => `&metrics=${snake(metric)}`).join('');

export interface OpenJob {
  follower: JobFollower;
  /** Rises with every change worth drawing. */
  version: number;
  live: LiveState;
  error: ApiError | null;
  reload: () => void;
  loadAll: () => void;
}

/** Follows one job for as long as the component is there. */
export function useJob(name: string): OpenJob {
  const [follower, setFollower] = useState(() => new JobFollower());
  const [version, setVersion] = useState(0);
  const [live, setLive] = useState(LIVE_START);
  const [error, setError] = useState<ApiError | null>(null);
  const actions = useRef({ reload: () => {}, loadAll: () => {} });

  useEffect(() => {
    const path = `/v1/${pathOf(name)}`;
    const abort = new AbortController();
    const mine = new JobFollower();
    let frame = 0;
    let reloadTimer: ReturnType<typeof setTimeout> | undefined;
    let complete = false;
    setFollower(mine);
    setError(null);
    setLive(LIVE_START);

    // A burst of events is drawn once.
    const changed = () => {
      if (frame) return;
      frame = window.setTimeout(() => {
        frame = 0;
        setVersion((v) => v + 1);
      }, 100);
    };
    const failed = (problem: unknown) => {
      if (abort.signal.aborted) return;
      setError(
        problem instanceof ApiError
          ? problem
          : new ApiError(0, String(problem)),
      );
    };
    const reload = () => {
      clearTimeout(reloadTimer);
      reloadTimer = setTimeout(() => {
        request<Job>(path, { signal: abort.signal }).then(
          (job) => {
            mine.setJob(job);
            changed();
          },
          () => undefined,
        );
      }, 150);
    };
    const readSeries = async (points: number) => {
      const series = await request<JobSeries>(
        `${path}:series?maxPoints=${points}${WANTED}`,
        {
          signal: abort.signal,
        },
      );
      mine.setSeries(series);
      changed();
    };
    const take = (response: WatchJobResponse) => {
      if (response.job) mine.setJob(response.job);
      if (response.event) {
        const event = response.event;
        if (event.dropped) void readSeries(POINTS).catch(() => undefined);
        if (mine.addEvent(event)) reload();
        const change = event.stateChange;
        if (change) {
          announce(
            `Job ${stateWord(change.state, change.outcome)}. ${change.reason ?? ''}`,
          );
          if (isFinal(change.state)) complete = true;
        }
      }
      changed();
    };
    const stream = new LiveStream({
      address: (lastId) =>
        `${path}:watch?afterSequence=${Math.max(Number(lastId) || 0, mine.lastSequence)}`,
      onMessage: (message) =>
        take(JSON.parse(message.data) as WatchJobResponse),
      isOver: () => complete || isFinal(mine.job?.state),
      onState: (state) => {
        setLive(state);
        if (state.phase === 'refused')
          setError(new ApiError(404, state.reason));
      },
    });
    const begin = async () => {
      try {
        mine.setJob(await request<Job>(path, { signal: abort.signal }));
        changed();
        await readSeries(POINTS);
        setError(null);
        stream.start();
      } catch (problem) {
        failed(problem);
      }
    };
    let begun = false;
    const tryBegin = () => {
      if (begun) return;
      begun = true;
      void begin().finally(() => {
        begun = mine.job !== null;
      });
    };
    const unfollow = returns.follow(() => (mine.job ? reload() : tryBegin()));
    actions.current = {
      reload: () => (mine.job ? reload() : tryBegin()),
      loadAll: () => void readSeries(ALL_POINTS).catch(() => undefined),
    };
    tryBegin();
    return () => {
      abort.abort();
      stream.stop();
      unfollow();
      clearTimeout(frame);
      clearTimeout(reloadTimer);
    };
  }, [name]);

  return {
    follower,
    version,
    live,
    error,
    reload: () => actions.current.reload(),
    loadAll: () => actions.current.loadAll(),
  };
}
