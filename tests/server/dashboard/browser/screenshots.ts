// The pictures of docs/images: tests/server/dashboard/screenshots.sh.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, it } from 'vitest';
import { launch, visit } from './pages';
import { Service, submit, until } from './service';

const OUT = process.env['COMERA_IMAGES'] ?? '.';
const EXAMPLE = process.env['COMERA_EXAMPLE'] ?? '';

let browser: Browser;
let service: Service;

beforeAll(async () => {
  [browser, service] = await Promise.all([launch(), Service.start()]);
});

afterAll(async () => {
  await browser?.close();
  await service?.stop();
});

interface Job {
  name: string;
  state: string;
  progress?: { step?: string };
}

it('takes pictures while the quickstart trains', async () => {
  const { spec } = await service.call<{ spec: Record<string, unknown> }>(
    '/v1/jobs:parse',
    { text: readFileSync(EXAMPLE, 'utf8'), fileName: 'job.yaml' },
  );
  const small = await submit(service, { name: 'warm-up on our own sources' });
  await until('the small job', async () => {
    const job = await service.call<Job>(`/v1/${small}`);
    return job.state === 'SUCCEEDED';
  });
  const job = await service.call<Job>('/v1/jobs', { spec });
  for (const rank of [8, 16, 30]) {
    await submit(service, {
      name: `code masked-lm, rank ${rank}`,
      labels: { sweep: 'ranks' },
    });
  }
  for (;;) {
    const { progress, state } = await service.call<Job>(`/v1/${job.name}`);
    if (Number(progress?.step ?? 0) > 1650 || state === 'SUCCEEDED') break;
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  for (const colorScheme of ['light', 'dark'] as const) {
    const { page, close } = await visit(browser, service.url, {
      colorScheme,
      viewport: { width: 1180, height: 560 },
    });
    await page.locator('table.jobs tbody tr').nth(4).waitFor();
    await page.screenshot({
      path: join(OUT, `dashboard_jobs_${colorScheme}.png`),
    });
    await page.setViewportSize({ width: 1180, height: 1250 });
    await page.goto(`${service.url}/${job.name}`);
    await page.locator('.heat canvas').waitFor();
    await page.locator('.front circle, .front path').first().waitFor();
    await page.screenshot({
      path: join(OUT, `dashboard_job_${colorScheme}.png`),
    });
    await close();
  }
});
