// Many jobs, hostile names, small screens, both colour schemes; no worker, so
// that nothing moves.
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkAccess, checkFits, launch, visit } from './pages';
import { Service, submit } from './service';

let browser: Browser;
let service: Service;
let hostile: string;

const HOSTILE = '<img src=x onerror=alert(1)>"\'&{{7*7}}\u202e';

beforeAll(async () => {
  [browser, service] = await Promise.all([
    launch(),
    Service.start({ workers: false }),
  ]);
  for (let i = 0; i < 60; ++i) {
    await submit(service, {
      name: `job number ${i}`,
      labels: { parity: i % 2 ? 'odd' : 'even' },
    });
  }
  hostile = await submit(service, {
    name: HOSTILE,
    labels: { x: '<script>alert(2)</script>' },
  });
  await service.call(`/v1/${hostile}:cancel`, {
    reason: '<svg onload=alert(3)>',
  });
});

afterAll(async () => {
  await browser?.close();
  await service?.stop();
});

describe('the list of jobs', () => {
  it('is filtered and searched by the server, and linked to', async () => {
    const { page, close } = await visit(browser, service.url);
    const rows = page.locator('table.jobs tbody tr');
    await page.getByText('61 jobs').waitFor();
    expect(await rows.count()).toBe(50);
    await page.getByRole('button', { name: 'Older' }).click();
    await page.getByText('job number 0', { exact: true }).waitFor();
    expect(await rows.count()).toBe(11);
    await page.getByRole('button', { name: 'Newer' }).click();
    await page.getByText('job number 59', { exact: true }).waitFor();

    await page.keyboard.press('/');
    await page.keyboard.type('NUMBER 17');
    await page.getByText('1 job', { exact: true }).waitFor();
    expect(page.url()).toContain('q=NUMBER');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Clear' }).click();

    await page.getByRole('checkbox', { name: 'cancelled' }).check();
    await page.getByText('1 job', { exact: true }).waitFor();
    await page.reload();
    await page.getByText('1 job', { exact: true }).waitFor();
    await page.getByRole('checkbox', { name: 'failed' }).check();
    await page.getByRole('checkbox', { name: 'cancelled' }).uncheck();
    await page.getByRole('heading', { name: 'No job matches' }).waitFor();
    await close();
  });

  it('says why a job waits, and sorts', async () => {
    const { page, close } = await visit(browser, service.url);
    await page
      .getByText('waiting for 2 CPU slots, none is connected')
      .first()
      .waitFor();
    const first = page.locator('table.jobs tbody tr').first();
    await page.getByRole('button', { name: 'Age', exact: true }).click();
    await first.getByText('job number 0', { exact: true }).waitFor();
    expect(
      await page
        .getByRole('columnheader', { name: 'Age' })
        .getAttribute('aria-sort'),
    ).toBe('ascending');
    await page.getByRole('button', { name: 'Job', exact: true }).click();
    await first.getByText(HOSTILE.slice(0, 20)).waitFor();
    await page.getByRole('button', { name: 'Job', exact: true }).click();
    await first.getByText('job number 9', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Next' }).click();
    await first.getByText('job number 17', { exact: true }).waitFor();
    await page.reload();
    await first.getByText('job number 17', { exact: true }).waitFor();
    await close();
  });

  it('acts on several jobs at once', async () => {
    const { page, close } = await visit(browser, service.url);
    for (const name of ['job number 41', 'job number 42']) {
      await page.getByRole('checkbox', { name: `Choose ${name}` }).check();
    }
    await page.getByText('2 jobs chosen').waitFor();
    await page.getByRole('button', { name: 'Pause 2' }).click();
    await page.locator('.bulk').waitFor({ state: 'detached' });
    const row = page.locator('tr', { hasText: 'job number 41' });
    await row.locator('.badge', { hasText: 'paused' }).waitFor();

    await page
      .getByRole('checkbox', { name: 'Choose job number 41' })
      .check();
    await page.getByRole('button', { name: 'Cancel 1…' }).click();
    await page
      .getByRole('dialog')
      .getByRole('button', { name: 'Cancel the jobs' })
      .click();
    await row.locator('.badge', { hasText: 'cancelled' }).waitFor();
    await page
      .getByRole('checkbox', { name: 'Choose job number 41' })
      .check();
    await page.getByRole('button', { name: 'Delete 1…' }).click();
    await page
      .getByRole('dialog')
      .getByRole('button', { name: 'Delete', exact: true })
      .click();
    await row.waitFor({ state: 'detached' });
    await page.getByText('60 jobs').waitFor();
    await close();
  });

  it('lays the curves of chosen jobs over one another', async () => {
    const { page, close } = await visit(browser, service.url);
    for (const name of ['job number 50', 'job number 51']) {
      await page.getByRole('checkbox', { name: `Choose ${name}` }).check();
    }
    await page.getByRole('button', { name: 'Compare curves' }).click();
    await page.getByRole('heading', { name: 'Compare 2 jobs' }).waitFor();
    await page.getByRole('link', { name: 'job number 51' }).waitFor();
    expect(new URL(page.url()).searchParams.getAll('job')).toHaveLength(2);
    await page.goto(`${service.url}/compare`);
    await page.getByRole('link', { name: 'compare the newest' }).click();
    await page.getByRole('heading', { name: 'Compare 6 jobs' }).waitFor();
    await close();
  });

  it('shows what others wrote as text', async () => {
    const { page, close } = await visit(browser, service.url);
    await page.getByText('<img src=x onerror=alert(1)>').waitFor();
    await page.getByText('x=<script>alert(2)</script>').waitFor();
    await page.getByRole('link', { name: '<img' }).click();
    await page.getByText('<svg onload=alert(3)>').first().waitFor();
    expect(await page.locator('img, main script').count()).toBe(0);
    await page.getByRole('tab', { name: 'Job file' }).click();
    await page.getByText('<script>alert(2)</script>').last().waitFor();
    await page.goto(`${service.url}/jobs?q=${encodeURIComponent(HOSTILE)}`);
    await page.getByText('1 job', { exact: true }).waitFor();
    await close();
  });

  it('says that there is no such job, and no such page', async () => {
    const visited = await visit(browser, service.url);
    visited.allowFailures = true;
    await visited.page.goto(`${service.url}/jobs/nosuchjob`);
    await visited.page.getByRole('alert').waitFor();
    await visited.page.goto(`${service.url}/nowhere`);
    await visited.page
      .getByRole('heading', { name: 'There is no such page' })
      .waitFor();
    await visited.close();
  });

  it('comes with a policy that lets nothing in', async () => {
    const response = await fetch(service.url);
    const policy = response.headers.get('content-security-policy') ?? '';
    expect(policy).toMatch(/default-src '(self|none)'/);
    expect(policy).not.toMatch(/script-src[^;]*unsafe/);
  });
});

describe('every page', () => {
  const paths = () => [
    '/jobs',
    `/${hostile}`,
    `/${hostile}/events`,
    `/${hostile}/file`,
    `/${hostile}/explain`,
    '/sweeps',
    '/cluster',
    '/data',
    '/submit',
    '/help',
    '/compare',
    `/compare?job=${hostile.split('/')[1]}`,
  ];

  for (const colorScheme of ['light', 'dark'] as const) {
    it(`can be used by everybody, ${colorScheme}`, async () => {
      const { page, close } = await visit(browser, service.url, {
        colorScheme,
      });
      for (const path of paths()) {
        await page.goto(service.url + path);
        await page.getByRole('heading', { level: 1 }).waitFor();
        await page.locator('body:not(:has(.loading))').waitFor();
        await checkAccess(page, `${path}, ${colorScheme}`);
      }
      await close();
    });
  }

  it('fits a phone of 320 pixels', async () => {
    const { page, close } = await visit(browser, service.url, {
      viewport: { width: 320, height: 640 },
      hasTouch: true,
      isMobile: true,
    });
    for (const path of paths()) {
      await page.goto(service.url + path);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await page.locator('body:not(:has(.loading))').waitFor();
      await checkFits(page, path);
    }
    await checkAccess(page, 'submit on a phone');
    await close();
  });

  it('keeps the chosen colours', async () => {
    const { page, close } = await visit(browser, service.url, {
      colorScheme: 'light',
    });
    const shown = () => page.locator('html').getAttribute('data-theme');
    expect(await shown()).toBe('light');
    await page.getByRole('button', { name: /Colours: auto/ }).click();
    await page.getByRole('button', { name: /Colours: light/ }).click();
    expect(await shown()).toBe('dark');
    await page.reload();
    expect(await shown()).toBe('dark');
    await close();
  });
});
