import { useEffect, useState } from 'preact/hooks';

/** The time, new every `interval` milliseconds. */
export function useNow(interval = 1000): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) setNow(Date.now());
    }, interval);
    return () => clearInterval(timer);
  }, [interval]);
  return now;
}
