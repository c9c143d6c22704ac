import { once } from 'node:events';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { listRepositories } from '../../../bundle/verify/list-repositories.ts';
import { BASE_ANNOTATION, bundleTitle } from '../../../domain/model/bundle.ts';
import { shortDigest } from '../../../domain/model/digest.ts';
import { isFaulty } from '../../../domain/model/medium.ts';
import { formatCount } from '../../../platform/sizes.ts';
import type { ServedBundle } from '../../context/command-adapters.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { openNamedBundle } from '../../context/find-shown.ts';
import { threshold } from '../../context/option-values.ts';
import { type KeyOptions, type ReadBundle, readWithKeys } from '../../context/read-with-keys.ts';
import { formatTable } from '../../output/table.ts';
import { type JsonFlag, jsonText, type Layout, printStderrLine } from '../../output/text.ts';
import type { FactoryDocument } from '../../schema/factory-documents.ts';

interface BundleServeOptions extends KeyOptions, JsonFlag {
  readonly listen: Address;
}

interface Address {
  readonly host: string;
  readonly port: number;
}

export function registerBundleServe(bundle: Command, context: CommandContext): void {
  bundle
    .command('serve')
    .description('serve a bundle as a read-only OCI registry, until interrupted')
    .argument('<bundle>', 'bundle directory, *.stickpin.tar, or the directory with its volumes')
    .addOption(
      new Option('--listen <address>', 'where to listen; port 0 selects a free port')
        .argParser(address)
        .default(address('127.0.0.1:5000'), '127.0.0.1:5000'),
    )
    .option(
      '--keys <file|dir>',
      'a trusted *.pub file, or the folder with them; without it the signature is not checked',
    )
    .option('--threshold <number>', 'distinct keys that must have signed', threshold, 1)
    .option('--json', 'print what is served as JSON')
    .action((path: string, options: BundleServeOptions) => serve(path, options, context));
}

async function serve(path: string, options: BundleServeOptions, context: CommandContext): Promise<void> {
  const { signal } = context;
  const reader = await openNamedBundle(path, signal);
  const read = await readWithKeys(reader, options, context);
  const repositories = await listRepositories(reader, { contents: read.bundle.contents, index: read.index }, signal);
  const { serveBundle } = await context.adapters();
  const warn = (line: string) => printStderrLine(`stickpin: ${line}`, 'warning', context);
  const served = await serveBundle({ reader, repositories, ...options.listen, warn });
  try {
    for (const line of [...exposureOf(served), ...warningsOf(read)]) warn(line);
    const tags = new Map([...repositories].map(([name, found]) => [name, [...found.tags.keys()]]));
    context.stdout(options.json ? jsonText(asJson(read, served, tags)) : asText(read, served, tags, context));
    if (!signal.aborted) await once(signal, 'abort');
  } finally {
    await served.close();
  }
}

function exposureOf({ authority }: ServedBundle): string[] {
  if (/^(127\.|\[::1\]|\[::ffff:127\.)/.test(authority)) return [];
  return [
    `whoever reaches ${authority} over the network may pull all of this bundle, without a password and without encryption; --listen 127.0.0.1:5000 keeps it on this machine`,
  ];
}

function warningsOf({ bundle, missing }: ReadBundle): string[] {
  const faulty = missing.filter(isFaulty).length;
  const inBase = missing.length - faulty;
  const { update, annotations } = bundle.payload;
  const base = annotations?.[BASE_ANNOTATION] ?? (update?.base === undefined ? '' : shortDigest(update.base));
  return [
    ...(faulty > 0 ? [`${formatCount(faulty, 'blob')} of the bundle can't be served; see stickpin bundle verify`] : []),
    ...(inBase > 0
      ? [`${formatCount(inBase, 'blob')} ${inBase === 1 ? 'is' : 'are'} left to the base ${base}, and not served here`]
      : []),
  ];
}

type Tags = ReadonlyMap<string, readonly string[]>;

function asJson(
  { bundle, judgement, missing }: ReadBundle,
  { authority, paths }: ServedBundle,
  tags: Tags,
): FactoryDocument<'bundle-serve'> {
  return {
    listen: authority,
    bundleId: bundle.bundleId,
    name: bundle.payload.name,
    version: bundle.payload.version,
    verified: judgement.kind === 'verified',
    signedBy: bundle.signedBy,
    missing,
    repositories: [...paths].map(([name, all]) => ({ name, paths: all, tags: tags.get(name) ?? [] })),
  };
}

function asText(read: ReadBundle, { authority, paths }: ServedBundle, tags: Tags, layout: Layout): string {
  const { bundle, judgement } = read;
  const rows = [...paths].map(([name, all]) => [all.join(', '), (tags.get(name) ?? []).join(', ') || '(by digest)']);
  return `${[
    `${bundleTitle(bundle.payload)} for ${bundle.payload.arch}, ${formatCount(bundle.payload.totals.images, 'image')}: ${judgement.text}`,
    `Serving on http://${authority} until interrupted. Pull for example with`,
    ...examples(read, authority, paths),
    '',
  ].join('\n')}\n${formatTable(['REPOSITORY', 'TAGS'], rows, layout)}`;
}

function examples({ bundle }: ReadBundle, authority: string, paths: ServedBundle['paths']): readonly string[] {
  const [image] = bundle.contents.images;
  const [repository = '', digest = ''] = image?.reference.split('@') ?? [];
  const [path] = paths.get(repository) ?? [];
  if (image === undefined || path === undefined) return ['  (it holds no image)'];
  const [tag] = image.tags;
  const name = `${authority}/${path}${tag === undefined ? `@${digest}` : tag.slice(tag.lastIndexOf(':'))}`;
  return [
    `  skopeo --override-arch ${bundle.payload.arch} copy --src-tls-verify=false docker://${name} dir:DIRECTORY`,
    `  ctr --namespace k8s.io images pull --plain-http ${name}`,
  ];
}

function address(text: string): Address {
  const [, host = '', bracketed = '', port = ''] =
    /^(?:\[([0-9a-fA-F:]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})$/.exec(text) ?? [];
  if (port === '' || Number(port) > 65_535) {
    throw new InvalidArgumentError('It must be an address with a port, as 127.0.0.1:5000 or [::1]:5000.');
  }
  return { host: host || bracketed, port: Number(port) };
}
