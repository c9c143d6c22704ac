import type { Command } from 'commander';
import type { ApiClient } from '../../../api/client.ts';
import type { CheckedImage } from '../../../domain/report/status-schema.ts';
import { withEither } from '../../../platform/async/abort.ts';
import { clip, oneLine } from '../../../platform/plain-text.ts';
import { formatCount } from '../../../platform/sizes.ts';
import { cliError } from '../../context/cli-error.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { withDaemon } from '../../context/daemon-client.ts';
import { formatStacked } from '../../output/table.ts';
import { type JsonFlag, jsonText, type Layout, shortDigests } from '../../output/text.ts';

export function registerVerifyImages(program: Command, context: CommandContext): void {
  program
    .command('verify-images')
    .description('check what the runtime keeps of the images of releases; damaged ones are pulled again')
    .argument('[bundle]', 'NAME@VERSION, or the digest of the bundle; default: all releases that are not retired')
    .option('--json', 'print what was found as JSON')
    .action((bundle: string | undefined, options: JsonFlag) => verify(bundle ?? '', options, context));
}

async function verify(bundle: string, options: JsonFlag, context: CommandContext): Promise<void> {
  const images = await withDaemon(context, (client) => withProgress(client, bundle, context));
  context.stdout(options.json ? jsonText({ images }) : asText(images, context));
  const damaged = images.filter(({ result }) => result === 'damaged').length;
  const unknown = images.filter(({ result }) => result === 'unknown').length;
  if (damaged > 0) {
    const [are, them] = damaged === 1 ? ['is', 'it'] : ['are', 'them'];
    const message = `${formatCount(damaged, 'image')} ${are} damaged; NEXT says what becomes of ${them}`;
    throw cliError('cli/unverified', message);
  }
  if (unknown > 0)
    throw cliError('cli/faults', `${formatCount(unknown, 'image')} could not be checked; FOUND says why`);
}

/** On a terminal, the STATUS line of the daemon goes to stderr meanwhile. */
async function withProgress(
  client: ApiClient,
  bundle: string,
  context: CommandContext,
): Promise<readonly CheckedImage[]> {
  const { stderr, stderrColumns: columns, signal } = context;
  if (columns === undefined) return client.verifyImages({ bundle }, signal);
  const ended = new AbortController();
  const paint = async () => {
    const { status } = await client.report(signal);
    // The last column stays free, because some terminals wrap there.
    if (!ended.signal.aborted) stderr(`\r${clipStatus(oneLine(status), Math.max(1, columns - 1))}\u001b[K`);
  };
  try {
    return await withEither([signal, ended.signal], async (until) => {
      await client.watch(() => void paint().catch(() => undefined), until);
      return client.verifyImages({ bundle }, signal);
    });
  } finally {
    ended.abort();
    stderr('\r\u001b[K');
  }
}

const TONES = { whole: 'good', damaged: 'bad', absent: 'bad', unknown: 'warning' } as const;

function asText(images: readonly CheckedImage[], layout: Layout): string {
  if (images.length === 0) return 'No release is known here, so that there is nothing to check.\n';
  const rows = images.map(({ image, releases, result, found, next }) => [
    { text: result, tone: TONES[result] },
    releases.join(' '),
    ...[image, oneLine(found), oneLine(next)].map((text) => shortDigests(text, layout)),
  ]);
  return formatStacked(['RESULT', 'RELEASE', 'IMAGE', 'FOUND', 'NEXT'], rows, 3, layout);
}

/** Clips in the middle, since a STATUS line ends with the remaining time or the progress. */
export function clipStatus(status: string, width: number): string {
  if (status.length <= width) return status;
  const [end = ''] =
    /, [^,]*\bleft\b[^,]*$/.exec(status) ?? /, [^,]*$/.exec(status) ?? /, [^,]*\bleft\b/.exec(status) ?? [];
  return end.length * 2 > width ? clip(status, width) : `${clip(status, width - end.length)}${end}`;
}
