import { useState } from 'preact/hooks';
import type { Job } from '../api/types';
import { toYaml } from '../model/job_file';
import { announce } from '../ui/announce';
import { Link } from '../ui/navigation';

export function JobFile({ job }: { job: Job }) {
  const text = toYaml(job.spec ?? {});
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      announce('Copied.');
    } catch {
      announce('The browser does not allow copying.');
    }
  };
  return (
    <section class="card">
      <div class="section-head">
        <h2>Job file</h2>
        <button type="button" onClick={() => void copy()}>
          {copied ? 'Copied' : 'Copy'}
        </button>
        <Link
          class="button"
          to={`/submit?like=${encodeURIComponent(job.name ?? '')}`}
        >
          Submit like this
        </Link>
      </div>
      <p class="muted small">
        As it was accepted, with the defaults filled in.
      </p>
      <pre class="code" tabIndex={0} aria-label="Job file">
        {text}
      </pre>
    </section>
  );
}
