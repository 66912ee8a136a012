// Addresses of pages: /jobs, /jobs/ID/logs, /sweeps/ID, ... with the filters in
// the query, so that every view can be linked to.

export interface Route {
  page: string;
  id: string;
  tab: string;
  query: URLSearchParams;
}

export function parseRoute(path: string, search: string): Route {
  const parts = path.split('/').filter(Boolean).map(decode);
  return {
    page: parts[0] ?? 'jobs',
    id: parts[1] ?? '',
    tab: parts[2] ?? '',
    query: new URLSearchParams(search),
  };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** `path` with those of the parameters that say something. */
export function address(
  path: string,
  query: Record<string, string | undefined | string[]> = {},
): string {
  const out = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (Array.isArray(value)) for (const item of value) out.append(key, item);
    else if (value) out.set(key, value);
  }
  const text = out.toString();
  return text ? `${path}?${text}` : path;
}
