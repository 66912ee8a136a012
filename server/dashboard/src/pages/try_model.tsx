import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../api/errors';
import { generateText } from '../api/text_stream';
import type { GenerateResponse } from '../api/types';
import { count } from '../model/format';
import { ErrorNote } from '../ui/basics';

/** A prompt that a language model continues on one of the workers. */
export function TryModel({ model }: { model: string }) {
  const [prompt, setPrompt] = useState('');
  const [tokens, setTokens] = useState(64);
  const [temperature, setTemperature] = useState(0.8);
  // What was continued, which the field may show no more.
  const [begun, setBegun] = useState('');
  const [text, setText] = useState<string | null>(null);
  const [last, setLast] = useState<GenerateResponse | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [running, setRunning] = useState<AbortController | null>(null);
  const current = useRef<AbortController | null>(null);
  useEffect(() => () => current.current?.abort(), []);

  const generate = async (event: Event) => {
    event.preventDefault();
    if (running) return;
    const abort = new AbortController();
    current.current = abort;
    setRunning(abort);
    setBegun(prompt);
    setText('');
    setLast(null);
    setError(null);
    try {
      await generateText(
        model,
        { prompt, maxTokens: tokens, temperature },
        (piece) => {
          setText((before) => (before ?? '') + (piece.text ?? ''));
          if (piece.finish) setLast(piece);
        },
        abort.signal,
      );
    } catch (problem) {
      if (abort.signal.aborted) return;
      setError(
        problem instanceof ApiError
          ? problem
          : new ApiError(0, 'The text broke off: the connection was lost.'),
      );
    } finally {
      if (current.current === abort) setRunning(null);
    }
  };

  return (
    <details class="try">
      <summary>Try it</summary>
      <form onSubmit={(event) => void generate(event)}>
        <label class="field">
          Text to continue
          <textarea
            rows={3}
            maxLength={8000}
            value={prompt}
            onInput={(event) => setPrompt(event.currentTarget.value)}
          />
        </label>
        <div class="actions">
          <label class="field inline">
            New tokens
            <input
              type="number"
              min={1}
              max={512}
              required
              value={tokens}
              onInput={(event) => setTokens(event.currentTarget.valueAsNumber)}
            />
          </label>
          <label class="field inline">
            Temperature
            <input
              type="number"
              min={0}
              max={10}
              step={0.1}
              required
              value={temperature}
              onInput={(event) =>
                setTemperature(event.currentTarget.valueAsNumber)
              }
            />
          </label>
          <button type="submit" class="primary" disabled={running !== null}>
            Generate
          </button>
          {running && (
            <button type="button" onClick={() => running.abort()}>
              Stop
            </button>
          )}
        </div>
      </form>
      {error && <ErrorNote error={error} />}
      {text !== null && !(error && text === '') && (
        <pre class="generated" aria-label="Generated text" tabIndex={0}>
          <span class="muted">{begun}</span>
          {text}
        </pre>
      )}
      <p class="muted" role="status">
        {running && text === '' && 'Waiting for a worker to load the model…'}
        {last && summary(last)}
      </p>
    </details>
  );
}

/** e.g. `12 tokens at 85 a second`. */
function summary(last: GenerateResponse): string {
  const tokens = last.generatedTokens ?? 0;
  const seconds = last.generationSeconds ?? 0;
  const words = `${count(tokens)} ${tokens === 1 ? 'token' : 'tokens'}`;
  // The seconds begin with the first token.
  if (tokens < 2 || seconds <= 0) return words;
  return `${words} at ${count(Math.round((tokens - 1) / seconds))} a second`;
}
