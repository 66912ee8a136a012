import { useEffect, useRef, useState } from 'preact/hooks';
import { getIfChanged, type Versioned } from './client';
import { returns } from './connection';
import { ApiError } from './errors';
import { backoff } from './live_state';

export interface Polled<T> {
  data: T | null;
  error: ApiError | null;
  /** Nothing has come for this address yet. */
  loading: boolean;
  /** Asks at once, for example after something was changed from here. */
  refresh: () => void;
}

/**
 * Returns the answer of `path`, which is asked again every `interval` milliseconds
 * while the page is visible (0: once), conditionally, with back-off while that
 * fails. The answer of an earlier address stays until the new one has answered.
 */
export function usePoll<T>(path: string | null, interval: number): Polled<T> {
  const [state, setState] = useState<{
    path: string | null;
    data: T | null;
    error: ApiError | null;
    loading: boolean;
  }>({ path, data: null, error: null, loading: path !== null });
  const again = useRef<() => void>(() => undefined);

  useEffect(() => {
    if (path === null) return undefined;
    let known: Versioned<T> | null = null;
    let failures = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const abort = new AbortController();
    let busy = false;

    const ask = async (): Promise<void> => {
      clearTimeout(timer);
      if (busy || document.hidden) return;
      busy = true;
      let delay = interval;
      try {
        const answer: Versioned<T> = await getIfChanged<T>(
          path,
          known,
          abort.signal,
        );
        failures = 0;
        if (answer !== known) {
          known = answer;
          setState({ path, data: answer.value, error: null, loading: false });
        } else {
          setState((old) =>
            old.error || old.loading
              ? { ...old, error: null, loading: false }
              : old,
          );
        }
      } catch (error) {
        if (abort.signal.aborted) return;
        const problem =
          error instanceof ApiError ? error : new ApiError(0, String(error));
        delay = Math.max(
          interval || 1000,
          backoff(failures, Math.random(), 30000),
        );
        ++failures;
        // The last answer stays on the screen while the server is away.
        setState((old) => ({
          path,
          data: problem.unreachable && old.path === path ? old.data : null,
          error: problem,
          loading: false,
        }));
        if (!problem.unreachable && problem.status !== 429)
          delay = Math.max(delay, 10000);
        else if (interval === 0) timer = setTimeout(() => void ask(), delay);
      } finally {
        busy = false;
      }
      if (interval > 0) timer = setTimeout(() => void ask(), delay);
    };

    const wake = () => void ask();
    again.current = wake;
    const unfollow = returns.follow(wake);
    document.addEventListener('visibilitychange', wake);
    setState((old) => ({ ...old, path, loading: true }));
    void ask();
    return () => {
      abort.abort();
      clearTimeout(timer);
      unfollow();
      document.removeEventListener('visibilitychange', wake);
    };
  }, [path, interval]);

  return {
    data: state.data,
    error: state.error,
    loading: state.loading,
    refresh: () => again.current(),
  };
}
