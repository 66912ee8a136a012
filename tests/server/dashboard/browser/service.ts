// A real coordinator and worker on free ports of loopback.
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const [server = '', worker = '', trainer = ''] = (
  process.env['COMERA_PROGRAMS'] ?? ''
).split(' ');

const DEADLINE_MS = 45000;

/** Looks again until `ready`; `what` is said when that takes too long. */
export async function until<T>(
  what: string,
  ready: () => T | Promise<T>,
): Promise<NonNullable<T>> {
  const end = Date.now() + DEADLINE_MS;
  for (;;) {
    const value = await ready();
    if (value) return value as NonNullable<T>;
    if (Date.now() > end) throw new Error(`waited too long for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export interface ServiceOptions {
  /** Ask everybody for a token. */
  tokens?: boolean;
  workers?: boolean;
  /** No limits of submissions. */
  unlimited?: boolean;
}

export class Service {
  readonly folder = mkdtempSync(join(tmpdir(), 'comera-dashboard-'));
  readonly corpus = join(this.folder, 'corpus');
  url = '';
  adminToken = '';
  private grpc = '127.0.0.1:0';
  private http = '127.0.0.1:0';
  private coordinator: ChildProcess | null = null;
  private worker: ChildProcess | null = null;

  static async start(options: ServiceOptions = {}): Promise<Service> {
    const service = new Service(options);
    writeCorpus(service.corpus);
    await service.startServer();
    if (options.workers !== false) service.startWorker();
    return service;
  }

  private constructor(private readonly options: ServiceOptions) {}

  /** Again at the same addresses, if it ran before. */
  async startServer(): Promise<void> {
    const ports = ['grpc', 'http'].map((name) => join(this.folder, name));
    for (const port of ports) rmSync(port, { force: true });
    const token = join(this.folder, 'admin.token');
    const flags = [
      `--listen=${this.grpc}`,
      `--http_listen=${this.http}`,
      `--port_file=${ports[0]}`,
      `--http_port_file=${ports[1]}`,
      `--data_dir=${join(this.folder, 'server')}`,
    ];
    if (this.options.tokens) flags.push(`--init_admin_token_file=${token}`);
    if (this.options.unlimited) {
      flags.push(
        '--user_submissions_per_second=100000',
        '--user_requests_per_second=100000',
        '--user_queued_jobs=200000',
      );
    }
    this.coordinator = this.run(server, flags, 'server.log');
    const [grpc, http] = await Promise.all(
      ports.map((port) =>
        until(`${port}\n${this.log('server.log')}`, () => read(port)),
      ),
    );
    this.grpc = grpc as string;
    this.http = http as string;
    this.url = `http://${this.http}`;
    if (this.options.tokens) {
      this.adminToken = await until('the first token', () => read(token));
    }
  }

  startWorker(): void {
    this.worker = this.run(
      worker,
      [
        `--server=${this.grpc}`,
        '--name=test-worker',
        '--slots=2',
        `--trainer=${trainer}`,
        `--data_dir=${join(this.folder, 'worker')}`,
        '--data_root=/',
      ],
      'worker.log',
    );
  }

  /** Without any warning. */
  async killServer(): Promise<void> {
    await end(this.coordinator, 'SIGKILL');
    this.coordinator = null;
  }

  async stop(): Promise<void> {
    await end(this.worker, 'SIGTERM');
    await end(this.coordinator, 'SIGTERM');
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** A call of the API from outside of the page. */
  async call<T>(path: string, body?: unknown): Promise<T> {
    const response = await fetch(`${this.url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        'Content-Type': 'application/json',
        ...(this.adminToken
          ? { Authorization: `Bearer ${this.adminToken}` }
          : {}),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
    return JSON.parse(text || '{}') as T;
  }

  log(name: string): string {
    return read(join(this.folder, name)).slice(-2000);
  }

  private run(program: string, flags: string[], log: string): ChildProcess {
    const child = spawn(program, flags, {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const path = join(this.folder, log);
    child.stderr?.on('data', (data: Buffer) =>
      writeFileSync(path, data, { flag: 'a' }),
    );
    return child;
  }
}

function read(path: string): string {
  return existsSync(path) ? readFileSync(path, 'utf8').trim() : '';
}

async function end(
  child: ChildProcess | null,
  signal: NodeJS.Signals,
): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill(signal);
  const last = setTimeout(() => child.kill('SIGKILL'), 20000);
  await gone;
  clearTimeout(last);
}

/** Small, the same always, and with something to learn in it. */
function writeCorpus(folder: string): void {
  mkdirSync(folder, { recursive: true });
  const verbs = ['read', 'write', 'open', 'close', 'merge'];
  const nouns = ['buffer', 'tensor', 'socket', 'record', 'index'];
  let state = 1;
  const draw = (words: string[]) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return words[(state >>> 16) % words.length] as string;
  };
  for (let file = 0; file < 60; ++file) {
    let text = '';
    for (let i = 0; i < 60; ++i) {
      const verb = draw(verbs);
      const noun = draw(nouns);
      text +=
        `def ${verb}_${noun}(self, ${noun}):\n    if ${noun} is None:\n` +
        `        return None\n    return self.${verb}(${noun})\n\n`;
    }
    writeFileSync(join(folder, `module_${file}.py`), text);
  }
}

export interface JobOptions {
  name?: string;
  labels?: Record<string, string>;
  /** Steps of the early stage. */
  steps?: number;
  late?: boolean;
}

/** A job of some seconds, as JSON. */
export function tinyJob(service: Service, options: JobOptions = {}) {
  const ranks = { ranks: [8] };
  return {
    displayName: options.name ?? 'tiny job',
    labels: options.labels ?? { purpose: 'test' },
    model: {
      family: 'MASKED_LM',
      layers: 1,
      hidden: 32,
      ffn: 64,
      heads: 2,
    },
    data: {
      codeDirectory: {
        roots: [service.corpus],
        globs: ['*.py'],
        validationFraction: 0.1,
      },
      tokenizer: { kind: 'BYTE_BPE', trainVocabularySize: 400 },
      maxLength: 48,
    },
    compression: {
      embedding: ranks,
      attention: ranks,
      ffnUp: ranks,
      ffnDown: ranks,
      head: ranks,
      output: { ranks: [16] },
    },
    objective: {
      early: { steps: options.steps ?? 400, gamma: 0.02 },
      ...(options.late === false
        ? {}
        : { late: { targetLoss: 2.9, targetRatio: 0.95, maxSteps: 4000 } }),
    },
    optimizer: {
      learningRateCores: 0.005,
      learningRateRanks: 0.005,
      learningRateOther: 0.005,
    },
    training: {
      batchSize: 16,
      seed: 1,
      reportEverySteps: 5,
      validateEverySteps: 50,
      validationSamples: 64,
    },
    resources: { device: 'CPU', processes: 2, threadsPerProcess: 1 },
    checkpoint: { everySteps: 20 },
  };
}

/** A job of a second or two that ends with a language model, as JSON. */
export function languageModelJob(service: Service) {
  const { ffn: _, ...model } = tinyJob(service).model;
  const spec = tinyJob(service, { name: 'language model', late: false });
  const { head: __, ...compression } = spec.compression;
  return {
    ...spec,
    model: { ...model, family: 'CAUSAL_LM', architecture: 'LLAMA' },
    compression,
    objective: { early: { steps: 20, gamma: 0.02 } },
    training: { ...spec.training, validateEverySteps: 10 },
    resources: { ...spec.resources, processes: 1 },
  };
}

/** The name of a new job. */
export async function submit(
  service: Service,
  options: JobOptions = {},
): Promise<string> {
  const job = await service.call<{ name: string }>('/v1/jobs', {
    spec: tinyJob(service, options),
  });
  return job.name;
}
