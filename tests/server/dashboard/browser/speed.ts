// How fast the pages are with 10,000 jobs and with a million points:
// tests/bench/dashboard_speed.sh.
import { gzipSync } from 'node:zlib';
import type { Browser, CDPSession, Page } from 'playwright-core';
import { afterAll, beforeAll, it } from 'vitest';
import { launch, visit } from './pages';
import { Service, submit, tinyJob } from './service';

const JOBS = Number(process.env['COMERA_SPEED_JOBS'] ?? 10000);
const POINTS = Number(process.env['COMERA_SPEED_POINTS'] ?? 1000000);
const RUNS = 5;

let browser: Browser;
let service: Service;
const lines: string[] = [];

beforeAll(async () => {
  [browser, service] = await Promise.all([
    launch(),
    Service.start({ workers: false, unlimited: true }),
  ]);
});

afterAll(async () => {
  await browser?.close();
  await service?.stop();
  process.stdout.write(`\n${lines.join('\n')}\n`);
});

function report(what: string, value: string): void {
  lines.push(`${what.padEnd(58)} ${value}`);
}

async function median(
  run: () => Promise<number>,
  runs = RUNS,
): Promise<string> {
  const times: number[] = [];
  for (let i = 0; i < runs; ++i) times.push(await run());
  times.sort((a, b) => a - b);
  const middle = times[Math.floor(times.length / 2)] as number;
  return `${middle.toFixed(0)} ms (${times[0]?.toFixed(0)} to ${times[
    times.length - 1
  ]?.toFixed(0)})`;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begin = performance.now();
  await work();
  return performance.now() - begin;
}

/** Objects, and the columns of numbers beside them. */
async function heap(session: CDPSession): Promise<string> {
  await session.send('HeapProfiler.collectGarbage');
  const usage = (await session.send('Runtime.getHeapUsage')) as {
    usedSize: number;
    backingStorageSize?: number;
  };
  const used = usage.usedSize + (usage.backingStorageSize ?? 0);
  return `${(used / 1048576).toFixed(1)} MiB`;
}

async function withMetrics(page: Page): Promise<CDPSession> {
  const session = await page.context().newCDPSession(page);
  return session;
}

it('sizes', async () => {
  const html = await (await fetch(service.url)).text();
  let all = gzipSync(html).length;
  for (const [, path] of html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)) {
    const file = await fetch(service.url + path);
    all += gzipSync(Buffer.from(await file.arrayBuffer())).length;
  }
  report('everything the pages load, gzip', `${(all / 1024).toFixed(1)} KiB`);
});

it(`${JOBS} jobs`, async () => {
  const spec = tinyJob(service);
  const begin = performance.now();
  for (let done = 0; done < JOBS; done += 20) {
    await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        service.call('/v1/jobs', {
          spec: { ...spec, displayName: `bert base ${done + i}` },
        }),
      ),
    );
  }
  report(
    `submitting ${JOBS} jobs over HTTP`,
    `${(JOBS / ((performance.now() - begin) / 1000)).toFixed(0)} jobs/s`,
  );
  const rows = 'table.jobs tbody tr';
  report(
    `list of ${JOBS} jobs: new page to 50 rows painted`,
    await median(async () => {
      const { page, close } = await visit(browser, service.url, {}, false);
      const time = await timed(async () => {
        await page.goto(service.url);
        await page.locator(rows).nth(49).waitFor();
      });
      await close();
      return time;
    }),
  );
  const { page, close } = await visit(browser, service.url);
  await page.locator(rows).nth(49).waitFor();
  let asked = 0;
  report(
    'filter: last key typed to the rows (150 ms of it waiting)',
    await median(async () => {
      const wanted = 1234 + 1111 * asked++;
      const field = page.locator('#search');
      await field.fill('');
      await page.locator(rows).nth(49).waitFor();
      return timed(async () => {
        await field.fill(`base ${wanted}`);
        await page.getByText(`bert base ${wanted}`, { exact: true }).waitFor();
        await page.locator(rows).nth(1).waitFor({ state: 'detached' });
      });
    }),
  );
  await page.locator('#search').fill('');
  await page.locator(rows).nth(49).waitFor();
  report(
    'next page: click to the rows',
    await median(async () => {
      const before = await page.locator(rows).first().textContent();
      return timed(async () => {
        await page.getByRole('button', { name: 'Older' }).click();
        await page.waitForFunction(
          ([selector, text]) =>
            document.querySelector(selector as string)?.textContent !== text,
          [`${rows}`, before] as const,
        );
      });
    }),
  );
  report('memory of that page', await heap(await withMetrics(page)));
  await close();
});

it(`${POINTS} points`, async () => {
  const name = await submit(service, { name: 'a long run' });
  // The coordinator thins: what it sends has at most 10,000 points of each
  // figure. So that the page alone is measured, the answer is replaced.
  const metrics = [
    'loss',
    'smoothed_loss',
    'validation_loss',
    'size_parameters',
    'samples_per_second',
    'synchronized_bytes',
    'dense_synchronized_bytes',
    'peak_memory_bytes',
    'gradient_norm',
    'size_bytes',
  ];
  const length = Math.floor(POINTS / metrics.length);
  const steps = Array.from({ length }, (_, i) => String(10 * i));
  const series = metrics.map((metric, m) => ({
    metric,
    steps,
    values: Array.from(
      { length },
      (_, i) => 1000 / (i + 100) + m + Math.sin(i * (m + 1)) / 10,
    ),
  }));
  const body = JSON.stringify({ series, lastSequence: '1' });
  report('series as JSON', `${(body.length / 1048576).toFixed(1)} MiB`);

  const visited = await visit(browser, service.url, {}, false);
  const { page } = visited;
  await page.route(/:series/, (route) =>
    route.fulfill({ contentType: 'application/json', body }),
  );
  const session = await withMetrics(page);
  const opened = await timed(async () => {
    await page.goto(`${service.url}/${name}`);
    await page.locator('.plot canvas').nth(5).waitFor();
    await page.evaluate(
      () => new Promise((done) => requestAnimationFrame(() => done(null))),
    );
  });
  report(
    `job with ${POINTS} points: new page to all plots`,
    `${opened.toFixed(0)} ms`,
  );
  const zoom = async (button: string, text: RegExp) =>
    timed(async () => {
      await page.getByRole('button', { name: button, exact: true }).click();
      await page.getByText(text).waitFor();
      await page.evaluate(
        () => new Promise((done) => requestAnimationFrame(() => done(null))),
      );
    });
  await page.unroute(/:series/);
  await page.route(/:series/, (route) => route.fulfill({ json: {} }));
  report(
    'zoom into half of the steps: click to all plots drawn',
    await median(async () => {
      const time = await zoom('Last half', /Steps [\d,]+ to/);
      await zoom('All', /All steps/);
      return time;
    }),
  );
  report(
    'back to all steps',
    await median(async () => {
      await zoom('Last half', /Steps [\d,]+ to/);
      return zoom('All', /All steps/);
    }),
  );
  report('memory of that page', await heap(session));
  await visited.close();
});
