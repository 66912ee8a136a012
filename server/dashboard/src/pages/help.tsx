import { useEffect } from 'preact/hooks';
import { Link } from '../ui/navigation';

const WORDS: [string, string][] = [
  [
    'target',
    'How good (a loss, an accuracy, …) and how small (parameters or bytes) the model must become. A job ends when both are met on the whole validation set.',
  ],
  [
    'outcome',
    'What a job that has succeeded achieved: target met, target missed (its step budget was spent first; the nearest model is kept), or completed (it had no targets).',
  ],
  [
    'Pareto front',
    'The models of which no other one is both smaller and better.',
  ],
  [
    'rank',
    'The size of a bond between two cores of a tensor train. Ranks fall while the job trains, and the model with them.',
  ],
  [
    'process',
    'One of the programs that train a job together; also called a member of its gang. All of them start, or none does.',
  ],
  [
    'attempt',
    'One placement of the gang on machines. When a process or a machine is lost, the next attempt goes on from the newest checkpoint.',
  ],
  ['incident', 'What ended an attempt, or cost it time.'],
  ['epoch', 'A pass over the training data.'],
];

const COMMANDS: [string, string][] = [
  ['comera submit job.yaml', 'queue a job'],
  ['comera explain JOB', 'why a job waits, and who is ahead'],
  ['comera logs JOB --follow', 'what its processes write'],
  ['comera models JOB --download FOLDER', 'fetch its model'],
  ['comera --help', 'all commands; `comera help VERB` for one'],
];

const PAGES: [string, string][] = [
  ['docs/tutorial.md', 'from the first job to your own data'],
  ['docs/concepts.md', 'the method in five pictures'],
  ['docs/scheduling.md', 'queues, priorities, preemption'],
  ['docs/recovery.md', 'failures, and what each costs'],
  ['docs/troubleshooting.md', 'messages, causes and cures'],
  ['docs/dashboard.md', 'this page'],
];

/** Words and commands; the page asks no other host for anything. */
export function HelpPage() {
  useEffect(() => {
    document.title = 'Help · comera';
  }, []);
  return (
    <>
      <h1>Help</h1>
      <section class="card" aria-labelledby="words">
        <h2 id="words">Words</h2>
        <dl class="words">
          {WORDS.map(([word, meaning]) => (
            <div key={word}>
              <dt>{word}</dt>
              <dd>{meaning}</dd>
            </div>
          ))}
        </dl>
      </section>
      <section class="card" aria-labelledby="commands">
        <h2 id="commands">On the command line</h2>
        <dl class="words">
          {COMMANDS.map(([command, what]) => (
            <div key={command}>
              <dt>
                <code>{command}</code>
              </dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
      </section>
      <section class="card" aria-labelledby="documentation">
        <h2 id="documentation">Documentation</h2>
        <p>
          It comes with comera: in the source tree, and with the Debian packages
          below <code>/usr/share/doc/comera</code>.
        </p>
        <dl class="words">
          {PAGES.map(([page, what]) => (
            <div key={page}>
              <dt>
                <code>{page}</code>
              </dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
        <p>
          The API describes itself:{' '}
          <a href="/openapi.json">openapi.json</a>. Keys work here too: press{' '}
          <kbd>?</kbd> for the list. <Link to="/jobs">Back to the jobs</Link>
        </p>
      </section>
    </>
  );
}
