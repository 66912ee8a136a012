export interface Violation {
  /** e.g. `spec.model.heads`. */
  field: string;
  description: string;
  /** Line of the job file, from 1; 0 if it is not known. */
  line: number;
}

/** The failure of a call. */
export class ApiError extends Error {
  constructor(
    /** HTTP status; 0: the server was not reached. */
    readonly status: number,
    message: string,
    readonly violations: Violation[] = [],
  ) {
    super(message);
  }

  get unreachable(): boolean {
    return (
      this.status === 0 ||
      this.status === 502 ||
      this.status === 503 ||
      this.status === 504
    );
  }
}

interface StatusJson {
  message?: unknown;
  details?: unknown;
  error?: unknown;
}

/** Out of a google.rpc.Status as JSON, also where it is wrapped in `error`. */
export function errorOf(status: number, body: unknown): ApiError {
  let json = (body ?? {}) as StatusJson;
  if (json.error && typeof json.error === 'object')
    json = json.error as StatusJson;
  const message =
    typeof json.message === 'string' && json.message !== ''
      ? json.message
      : `The server answered with HTTP status ${status}.`;
  const violations: Violation[] = [];
  let line = 0;
  for (const detail of Array.isArray(json.details) ? json.details : []) {
    const { metadata } = (detail ?? {}) as {
      metadata?: { line?: unknown };
    };
    // The line of a job file's text (POST /v1/jobs:parse).
    line = Number(metadata?.line ?? 0) || line;
    const list = ((detail ?? {}) as { fieldViolations?: unknown })
      .fieldViolations;
    for (const item of Array.isArray(list) ? list : []) {
      const { field, description } = item as Record<string, unknown>;
      violations.push({
        field: String(field ?? ''),
        description: String(description ?? ''),
        line,
      });
    }
  }
  return new ApiError(status, message, violations);
}
