import { useEffect, useRef } from 'preact/hooks';
import { connection, retryNow } from './api/connection';
import { logout, session } from './api/client';
import { usePoll } from './api/poll';
import type { WhoAmIResponse } from './api/types';
import { useStore } from './model/store';
import { ClusterPage } from './pages/cluster';
import { ComparePage } from './pages/compare';
import { DataPage } from './pages/data';
import { HelpPage } from './pages/help';
import { JobPage } from './pages/job';
import { JobsPage } from './pages/jobs';
import { LoginPage } from './pages/login';
import { SubmitPage } from './pages/submit';
import { SweepPage } from './pages/sweep';
import { SweepsPage } from './pages/sweeps';
import { Announcer } from './ui/announce';
import { Empty } from './ui/basics';
import { Link, route } from './ui/navigation';
import { Shortcuts } from './ui/shortcuts';
import { theme, type Theme } from './ui/theme';

const PAGES = [
  ['jobs', 'Jobs'],
  ['sweeps', 'Sweeps'],
  ['cluster', 'Cluster'],
  ['data', 'Data'],
] as const;

export function App() {
  const { page, id } = useStore(route);
  const { needed, version } = useStore(session);
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);

  // A screen reader tells that the page has changed: the focus goes to its heading.
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    // Unless something in the new page has taken it.
    if (main.current?.contains(document.activeElement)) return;
    main.current?.focus({ preventScroll: true });
  }, [page, id]);

  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="top">
        <Link to="/jobs" class="brand" aria-label="comera, jobs">
          <svg aria-hidden="true" viewBox="0 0 32 32" width="26" height="26">
            <path d="M7 9v4.5c0 6 5 9.5 18 9.5" />
            <circle cx="7" cy="9" r="2.6" />
            <circle cx="11" cy="18.5" r="2.6" />
            <circle cx="25" cy="23" r="2.6" />
          </svg>
          <span>comera</span>
        </Link>
        {!needed && (
          <nav aria-label="Pages">
            {PAGES.map(([key, label]) => (
              <Link
                key={key}
                to={`/${key}`}
                aria-current={page === key ? 'page' : undefined}
              >
                {label}
              </Link>
            ))}
          </nav>
        )}
        <div class="tools">
          <Link to="/help" class="help-link">
            Help
          </Link>
          <ConnectionMark />
          <ThemeButton />
          {!needed && <Who key={version} />}
        </div>
      </header>
      <Offline />
      <main id="main" tabIndex={-1} ref={main} key={version}>
        {needed ? <LoginPage /> : <Page page={page} id={id} />}
      </main>
      <Announcer />
      <Shortcuts />
    </>
  );
}

function Page({ page, id }: { page: string; id: string }) {
  useEffect(() => {
    if (page === 'jobs' && !id) document.title = 'Jobs · comera';
  }, [page, id]);
  switch (page) {
    case 'jobs':
      return id ? <JobPage key={id} id={id} /> : <JobsPage />;
    case 'sweeps':
      return id ? <SweepPage key={id} id={id} /> : <SweepsPage />;
    case 'compare':
      return <ComparePage />;
    case 'cluster':
    case 'workers':
      return <ClusterPage />;
    case 'data':
      return <DataPage />;
    case 'help':
      return <HelpPage />;
    case 'submit':
      return <SubmitPage />;
    default:
      return (
        <Empty title="There is no such page">
          <p>
            <Link to="/jobs">To the jobs</Link>
          </p>
        </Empty>
      );
  }
}

function ConnectionMark() {
  const { online } = useStore(connection);
  return (
    <span class={online ? 'link on' : 'link off'} role="status">
      {online ? 'online' : 'offline'}
    </span>
  );
}

function Offline() {
  const { online } = useStore(connection);
  if (online) return null;
  return (
    <div class="offline" role="alert">
      <span>
        Offline: the coordinator does not answer. Reconnecting… Jobs go on
        meanwhile; what you see is the last that was known.
      </span>
      <button type="button" onClick={retryNow}>
        Try now
      </button>
    </div>
  );
}

const NEXT: Record<Theme, Theme> = {
  auto: 'light',
  light: 'dark',
  dark: 'auto',
};
const SIGN: Record<Theme, string> = { auto: '◐', light: '☀', dark: '☾' };

function ThemeButton() {
  const current = useStore(theme);
  return (
    <button
      type="button"
      class="quiet icon"
      aria-label={`Colours: ${current}. Change to ${NEXT[current]}`}
      title={`Colours: ${current}`}
      onClick={() => theme.set(NEXT[current])}
    >
      <span aria-hidden="true">{SIGN[current]}</span>
    </button>
  );
}

function Who() {
  const { data } = usePoll<WhoAmIResponse>('/v1/whoami', 0);
  if (!data || data.open || !data.user) return null;
  return (
    <span class="who">
      {data.user}
      <button type="button" class="quiet" onClick={() => void logout()}>
        Log out
      </button>
    </span>
  );
}
