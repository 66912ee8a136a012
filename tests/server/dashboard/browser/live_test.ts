// One coordinator, one worker, one job from the first page to its model.
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkAccess, checkFits, colours, launch, visit } from './pages';
import {
  Service,
  languageModelJob,
  submit,
  tinyJob,
  until,
} from './service';

let browser: Browser;
let service: Service;

beforeAll(async () => {
  [browser, service] = await Promise.all([launch(), Service.start()]);
});

afterAll(async () => {
  await browser?.close();
  await service?.stop();
});

const step = /step ([\d,]+) of/;

describe('the dashboard', () => {
  it('says what to do where there is nothing yet', async () => {
    const { page, close } = await visit(browser, service.url);
    await page.getByRole('heading', { name: 'No jobs yet' }).waitFor();
    await page.getByRole('link', { name: 'Sweeps' }).click();
    await page.getByRole('heading', { name: 'No sweeps yet' }).waitFor();
    await page.getByRole('link', { name: 'Data', exact: true }).click();
    await page.getByRole('heading', { name: 'No datasets' }).waitFor();
    await page.getByRole('heading', { name: 'No models yet' }).waitFor();
    await page.getByRole('link', { name: 'Cluster' }).click();
    await page.getByRole('heading', { name: 'test-worker' }).waitFor();
    expect(await page.title()).toBe('Cluster · comera');
    await page.goBack();
    await page.getByRole('heading', { name: 'No datasets' }).waitFor();
    await close();
  });

  it('submits with errors at their lines, then follows to the end', async () => {
    const visited = await visit(browser, `${service.url}/submit`);
    const { page } = visited;
    visited.allowFailures = true;
    const editor = page.getByLabel('Job file');

    // A word that is no field: the parser's line.
    await editor.fill('model:\n  layers: 1\n  colour: red\n');
    await page.getByRole('button', { name: 'Submit' }).click();
    const problems = page.getByRole('alert');
    await problems.getByText('unknown field').waitFor();
    await problems.getByRole('button', { name: 'line 3' }).click();
    expect(
      await editor.evaluate((area) => {
        const { value, selectionStart, selectionEnd } =
          area as HTMLTextAreaElement;
        return value.slice(selectionStart, selectionEnd);
      }),
    ).toBe('  colour: red');
    expect(await editor.getAttribute('aria-invalid')).toBe('true');

    // A value that cannot be: the validator's field, and its line.
    const spec = tinyJob(service, { name: 'followed job' });
    spec.model.heads = 5;
    await editor.fill(JSON.stringify(spec, null, 2));
    await page.getByRole('button', { name: 'Check' }).click();
    const heads = problems.locator('li', { hasText: 'model.heads' });
    await heads.waitFor();
    await heads.getByRole('button').click();
    expect(
      await editor.evaluate((area) =>
        (area as HTMLTextAreaElement).value.slice(
          (area as HTMLTextAreaElement).selectionStart,
        ),
      ),
    ).toMatch(/^\s*"heads": 5/);
    await checkAccess(page, 'submit with problems');

    spec.model.heads = 2;
    await editor.fill(JSON.stringify(spec, null, 2));
    await page.getByRole('button', { name: 'Check' }).click();
    await page.getByText('It would start now with 2 of 2 processes').waitFor();
    visited.allowFailures = false;
    await page.getByRole('button', { name: 'Submit' }).click();

    // Live, without any reload.
    await page.getByRole('heading', { name: 'followed job' }).waitFor();
    const progress = page.locator('.job-progress');
    await progress.waitFor();
    const seen = new Set<string>();
    await until('three different steps', async () => {
      const text = (await progress.textContent()) ?? '';
      const match = step.exec(text);
      if (match) seen.add(match[1] as string);
      return seen.size >= 3;
    });
    await page.locator('.badge', { hasText: 'target met' }).first().waitFor();
    await page.getByText('both targets met').first().waitFor();
    expect(await page.getByRole('button', { name: 'Cancel…' }).count()).toBe(0);

    // The plots say in words what they show.
    const loss = page.getByRole('figure', { name: 'Loss', exact: true });
    expect(await loss.textContent()).toMatch(/validation: \d\.\d+ at step/);
    expect(await loss.textContent()).toContain('target 2.900');
    expect(await colours(page, '.heat canvas')).toBeGreaterThan(5);
    expect(await colours(page, '.plot canvas')).toBeGreaterThan(5);
    const front = page.getByRole('figure', { name: 'Pareto front' });
    expect(await front.locator('.best').count()).toBeGreaterThan(0);
    expect(await front.locator('rect.goal').count()).toBe(1);
    await front.getByText('Numbers').click();
    await front.getByRole('cell', { name: 'yes' }).first().waitFor();
    await page.getByRole('button', { name: 'Last tenth' }).click();
    await page.getByText(/Steps [\d,]+ to [\d,]+/).waitFor();
    await page.getByRole('button', { name: 'All', exact: true }).click();
    await checkAccess(page, 'job');

    // The other views.
    await page.getByRole('tab', { name: 'Events' }).click();
    await page.getByRole('cell', { name: 'ready', exact: true }).waitFor();
    await page.getByRole('cell', { name: 'all members are running' }).waitFor();
    await checkAccess(page, 'events');
    await page.getByRole('tab', { name: 'Logs' }).click();
    const log = page.getByRole('log');
    await log.getByText('training job=').waitFor();
    await page.getByRole('tab', { name: 'Job file' }).click();
    await page.getByText('family: MASKED_LM').waitFor();
    await page.getByRole('tab', { name: 'Models' }).click();
    const link = page.getByRole('link', { name: 'model.safetensors' });
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      link.first().click(),
    ]);
    expect(download.suggestedFilename()).toBe('model.safetensors');
    expect(await download.failure()).toBeNull();
    await checkAccess(page, 'models');
    await visited.close();
  });

  it('zooms by dragging, all plots together', async () => {
    const { page, close } = await visit(browser, service.url);
    await page.getByRole('link', { name: 'followed job' }).click();
    const plot = page.locator('.plot .u-over').first();
    await plot.scrollIntoViewIfNeeded();
    const box = await plot.boundingBox();
    if (!box) throw new Error('the plot is not there');
    await page.mouse.move(box.x + box.width * 0.3, box.y + 60);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 5 });
    await page.mouse.up();
    await page.getByText(/Steps [\d,]+ to [\d,]+/).waitFor();
    await page.locator('.plot .u-over').nth(1).dblclick();
    await page.getByText('All steps').waitFor();
    await close();
  });

  it('cancels, pauses and resumes a job that runs', async () => {
    const name = await submit(service, { name: 'endless job', steps: 1e6 });
    const { page, close } = await visit(browser, `${service.url}/${name}`);
    await page.locator('.badge', { hasText: 'running' }).first().waitFor();
    await page.getByText('live', { exact: true }).waitFor();

    await page.getByRole('button', { name: 'Pause' }).click();
    await page.locator('.badge', { hasText: 'paused' }).first().waitFor();
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.locator('.badge', { hasText: 'running' }).first().waitFor();

    await page.getByRole('button', { name: 'Cancel…' }).click();
    const dialog = page.getByRole('dialog');
    await checkAccess(page, 'the dialog');
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Cancel…' }).click();
    await dialog.getByLabel('Reason').fill('enough <b>seen</b>');
    await dialog.getByRole('button', { name: 'Cancel the job' }).click();
    await page.locator('.badge', { hasText: 'cancelled' }).first().waitFor();
    await page.getByText('enough <b>seen</b>').first().waitFor();
    await close();
  });

  it('compares the runs of a sweep', async () => {
    const sweep = await service.call<{ name: string }>('/v1/sweeps', {
      spec: {
        displayName: 'two ranks',
        job: tinyJob(service, { steps: 150, late: false }),
        grid: { ranks: ['4', '8'] },
      },
    });
    const { page, close } = await visit(browser, `${service.url}/sweeps`);
    await page.getByRole('link', { name: 'two ranks' }).click();
    await page.getByRole('heading', { name: 'two ranks' }).waitFor();
    expect(page.url()).toContain(sweep.name);
    // Live, until both runs have ended.
    await page.locator('.state-line .badge.good').waitFor();
    const fronts = page.getByRole('figure', { name: 'Fronts' });
    expect(await fronts.locator('.best').count()).toBeGreaterThan(0);
    await page.getByLabel('Compare by').selectOption('ranks');
    await page
      .getByRole('heading', { name: 'Hyper-volume by ranks' })
      .waitFor();
    const shares = page
      .getByRole('table', { name: 'Share of the reference' })
      .locator('tbody tr');
    expect(await shares.count()).toBe(2);
    expect(await shares.first().textContent()).toMatch(/0\.\d{4}$/);
    await checkAccess(page, 'sweep');
    await checkFits(page, 'sweep');
    await page
      .getByRole('link', { name: /^[a-z0-9]{12}$/ })
      .first()
      .click();
    await page.getByRole('figure', { name: 'Pareto front' }).waitFor();
    await close();
  });

  it('says which model a search chose, and why', async () => {
    await service.call('/v1/sweeps', {
      spec: {
        displayName: 'a search',
        job: {
          ...tinyJob(service),
          compression: { method: 'AUTO' },
          objective: { late: { targetLoss: 4 } },
          budget: { steps: '600' },
        },
        search: { methods: ['DENSE'], candidates: 2 },
      },
    });
    const { page, close } = await visit(browser, `${service.url}/sweeps`);
    await page.getByRole('link', { name: 'a search' }).click();
    await page.getByRole('heading', { name: 'The best model' }).waitFor();
    await page
      .getByRole('paragraph')
      .filter({ hasText: /^dense with width \d+.* reached loss/ })
      .waitFor();
    const rows = page
      .getByRole('table', { name: 'Candidates' })
      .locator('tbody tr');
    expect(await rows.count()).toBe(2);
    const chosen = rows.filter({ hasText: '(chosen)' });
    expect(await chosen.count()).toBe(1);
    expect(await chosen.locator('.reason').textContent()).toBeTruthy();
    await checkAccess(page, 'search');
    await checkFits(page, 'search');
    await close();
  });

  it('tries a language model, and says why where it cannot', async () => {
    const job = await service.call<{ name: string }>('/v1/jobs', {
      spec: languageModelJob(service),
    });
    await until('the model', async () => {
      const now = await service.call<{ state: string }>(`/v1/${job.name}`);
      return now.state === 'SUCCEEDED';
    });
    const visited = await visit(browser, `${service.url}/${job.name}/models`);
    const { page, close } = visited;
    await page.getByText('Try it').first().click();
    await page.getByLabel('Text to continue').first().fill('def read_');
    await page.getByLabel('New tokens').first().fill('7');
    await page.getByRole('button', { name: 'Generate' }).first().click();
    await page.getByText(/^7 tokens at [\d,]+ a second$/).waitFor();
    const text = page.getByLabel('Generated text');
    const generated = (await text.textContent()) ?? '';
    expect(generated.startsWith('def read_')).toBe(true);
    expect(generated.length).toBeGreaterThan('def read_'.length);
    await checkAccess(page, 'a generated text');
    await checkFits(page, 'a generated text');

    // The page's own limits are not the server's.
    visited.allowFailures = true;
    await page.route('**:generate', (route) =>
      route.continue({
        postData: JSON.stringify({ prompt: 'x', maxTokens: 513 }),
      }),
    );
    await page.getByRole('button', { name: 'Generate' }).first().click();
    await page
      .getByRole('alert')
      .getByText('max_tokens: must be at most 512')
      .waitFor();
    await close();
  });

  it('goes on by itself when the coordinator was killed', async () => {
    const name = await submit(service, { name: 'survivor', steps: 1e6 });
    const visited = await visit(browser, `${service.url}/${name}`);
    const { page } = visited;
    await page.locator('.plot canvas').first().waitFor();
    visited.allowFailures = true;
    await service.killServer();
    await page.getByText('Offline: the coordinator does not answer').waitFor();
    await page.getByText('reconnecting…', { exact: true }).waitFor();
    // What was known is still there.
    expect(await page.locator('.plot canvas').count()).toBeGreaterThan(0);
    await checkAccess(page, 'offline');
    await service.startServer();
    await page.getByText('Offline:').waitFor({ state: 'hidden' });
    await page.getByText('live', { exact: true }).waitFor();
    visited.allowFailures = false;
    const before = await page.locator('.job-progress').textContent();
    await until(
      'more steps',
      async () =>
        step.test((await page.locator('.job-progress').textContent()) ?? '') &&
        (await page.locator('.job-progress').textContent()) !== before,
    );
    await service.call(`/v1/${name}:cancel`, { reason: 'test' });
    await page.locator('.badge', { hasText: 'cancelled' }).first().waitFor();
    await visited.close();
  });
});
