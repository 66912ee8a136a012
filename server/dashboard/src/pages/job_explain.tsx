import type { JobExplanation } from '../api/types';
import { usePoll } from '../api/poll';
import { clock, lastSegment, pathOf } from '../model/format';
import { ErrorNote, Loading, Scroll, StateBadge } from '../ui/basics';
import { Link } from '../ui/navigation';

export function JobExplain({ name }: { name: string }) {
  const { data, error, refresh } = usePoll<JobExplanation>(
    `/v1/${pathOf(name)}:explain`,
    3000,
  );
  if (error && !data) return <ErrorNote error={error} retry={refresh} />;
  if (!data) return <Loading what="the explanation" />;
  const facts: [string, string][] = [
    ['Processes', processes(data)],
    ['Queue', `${data.queue || 'default'}, priority ${data.priority ?? 0}`],
    [
      'Slots of the device',
      `${data.freeSlots ?? 0} free of ${data.fitSlots ?? 0}`,
    ],
    [
      'Processes of the queue',
      `${data.queueProcesses ?? 0} in use` +
        (data.queueGuaranteedProcesses
          ? `, ${data.queueGuaranteedProcesses} guaranteed`
          : '') +
        (data.queueMaxProcesses ? `, ${data.queueMaxProcesses} at most` : ''),
    ],
  ];
  if (data.position)
    facts.unshift(['Place in the queue', String(data.position)]);
  if (data.blockedBy) facts.unshift(['Waits for', data.blockedBy]);
  if (data.expectedStart)
    facts.push(['Expected start', clock(data.expectedStart)]);
  if (data.preemptions)
    facts.push(['Gave up its slots', `${data.preemptions} times`]);
  return (
    <section class="card">
      <h2>
        Why it is <StateBadge state={data.state} />
      </h2>
      <p>{data.reason}</p>
      <dl class="facts">
        {facts.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
        {(data.workers ?? []).length > 0 && (
          <div>
            <dt>Workers</dt>
            <dd>{(data.workers ?? []).map(lastSegment).join(', ')}</dd>
          </div>
        )}
      </dl>
      {(data.ahead ?? []).length > 0 && (
        <>
          <h3>Served before</h3>
          <Scroll label="Jobs ahead">
            <table class="plain">
              <caption class="sr-only">Jobs ahead, in serving order</caption>
              <thead>
                <tr>
                  <th scope="col">Job</th>
                  <th scope="col">Queue</th>
                  <th scope="col">Priority</th>
                  <th scope="col">Processes</th>
                  <th scope="col">Why</th>
                </tr>
              </thead>
              <tbody>
                {(data.ahead ?? []).map((job) => (
                  <tr key={job.name}>
                    <th scope="row">
                      <Link to={`/${pathOf(job.name ?? '')}`}>
                        {lastSegment(job.name)}
                      </Link>
                    </th>
                    <td>{job.queue}</td>
                    <td class="number">{job.priority ?? 0}</td>
                    <td class="number">{job.processes ?? 1}</td>
                    <td>{job.why}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        </>
      )}
      {(data.smallerGangs ?? []).length > 0 && (
        <>
          <h3>With fewer processes</h3>
          <ul>
            {(data.smallerGangs ?? []).map((gang) => (
              <li key={gang.processes}>
                {gang.processes} {gang.processes === 1 ? 'process' : 'processes'}:{' '}
                {gang.now
                  ? 'would start at once'
                  : gang.expectedStart
                    ? `would start about ${clock(gang.expectedStart)}`
                    : 'would wait too'}
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

function processes(data: JobExplanation): string {
  const asked = data.maxProcesses ?? 1;
  const range =
    data.minProcesses && data.minProcesses !== asked
      ? `${data.minProcesses} to ${asked}`
      : `${asked}`;
  return `${data.processes ?? 0} of ${range} asked for`;
}
