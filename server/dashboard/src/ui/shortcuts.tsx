import { useEffect, useState } from 'preact/hooks';
import { Store } from '../model/store';
import { Dialog } from './basics';
import { navigate } from './navigation';

const GO: Record<string, [string, string]> = {
  j: ['/jobs', 'Jobs'],
  s: ['/sweeps', 'Sweeps'],
  c: ['/cluster', 'Cluster'],
  d: ['/data', 'Data and models'],
  n: ['/submit', 'Submit a job'],
};

/** The search field takes the focus as soon as it is there. */
export const searchNext = new Store(false);

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable ||
      ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName))
  );
}

/** `?` lists the keys, `/` searches, `g` and a letter goes to a page, j and k. */
export function Shortcuts() {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    let prefix = -Infinity;
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const { target } = event;
      if (event.key === 'Escape' && isTyping(target)) {
        (target as HTMLElement).blur();
        return;
      }
      if (isTyping(target) || document.querySelector('dialog[open]')) return;
      const gone = event.timeStamp - prefix < 1500;
      prefix = -Infinity;
      if (event.key === '?') {
        setOpen(true);
      } else if (event.key === '/') {
        const search = document.getElementById('search');
        if (search) search.focus();
        else {
          searchNext.set(true);
          navigate('/jobs');
        }
      } else if (event.key === 'g') {
        prefix = event.timeStamp;
        return;
      } else if (gone && GO[event.key]) {
        navigate((GO[event.key] as [string, string])[0]);
      } else if (event.key === 'j' || event.key === 'k') {
        move(event.key === 'j' ? 1 : -1);
      } else {
        return;
      }
      event.preventDefault();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
  return (
    <Dialog title="Keys" open={open} onClose={() => setOpen(false)}>
      <dl class="keys">
        <Key keys={['/']} text="Search jobs" />
        <Key keys={['j']} text="Next row" />
        <Key keys={['k']} text="Row before" />
        {Object.entries(GO).map(([key, [, text]]) => (
          <Key key={key} keys={['g', key]} text={text} />
        ))}
        <Key keys={['Esc']} text="Close, or leave a field" />
        <Key keys={['?']} text="These keys" />
      </dl>
      <div class="actions">
        <button type="button" onClick={() => setOpen(false)}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

function Key({ keys, text }: { keys: string[]; text: string }) {
  return (
    <div>
      <dt>
        {keys.map((key) => (
          <kbd key={key}>{key}</kbd>
        ))}
      </dt>
      <dd>{text}</dd>
    </div>
  );
}

function move(by: number): void {
  const links = [...document.querySelectorAll<HTMLElement>('.row-link')];
  const at = links.indexOf(document.activeElement as HTMLElement);
  links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + by))]?.focus();
}
