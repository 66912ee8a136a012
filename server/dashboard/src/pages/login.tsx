import { useEffect, useRef, useState } from 'preact/hooks';
import { issuer, login } from '../api/client';
import { ApiError } from '../api/errors';

export function LoginPage() {
  const [token, setToken] = useState('');
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const [signOn, setSignOn] = useState('');
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = 'Log in · comera';
    field.current?.focus();
    // Without an answer there is still the token.
    issuer().then(setSignOn, () => undefined);
  }, []);
  const here = `${location.pathname}${location.search}`;

  const submit = async () => {
    setBusy(true);
    setError('');
    try {
      await login(token.trim());
    } catch (problem) {
      const failure = problem instanceof ApiError ? problem : null;
      setError(
        failure && (failure.status === 401 || failure.status === 403)
          ? 'The server does not accept this token.'
          : (failure?.message ?? String(problem)),
      );
      field.current?.select();
    } finally {
      setBusy(false);
    }
  };

  return (
    <form
      class="card login"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <h1>Log in</h1>
      {signOn !== '' && (
        <a
          class="button primary sign-on"
          href={`/v1/sso/login?return=${encodeURIComponent(here)}`}
        >
          Log in with {hostOf(signOn)}
        </a>
      )}
      <p class="muted">
        {signOn === ''
          ? 'This coordinator asks who you are. Paste a token'
          : 'Or paste a token'}
        ; an administrator makes one with <code>comera token create</code>.
      </p>
      <label class="field">
        Token
        <input
          ref={field}
          type="password"
          name="token"
          autocomplete="current-password"
          required
          aria-invalid={error !== ''}
          aria-describedby="login-error"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
      </label>
      <div
        id="login-error"
        role="alert"
        class={error ? 'note error' : undefined}
      >
        {error}
      </div>
      <button type="submit" class="primary" disabled={busy}>
        {busy ? 'Logging in…' : 'Log in'}
      </button>
    </form>
  );
}

function hostOf(url: string): string {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
}
