import { formatBytes } from '../../../platform/sizes.ts';
import type { RuntimeReason } from '../../model/reason.ts';
import type { Entries, Said } from '../entries.ts';
import type { Names } from '../names.ts';
import { kindText } from './image-reasons.ts';

/** Reasons in the runtime and its disk that hold a release. */
export const RUNTIME_REASONS: Entries<RuntimeReason> = {
  'engine/no-space': {
    short: 'D-01',
    means: 'The disk has too little room for the release',
    event: 'noSpace',

    says: ({ bundle, shortage }, names) => shortageSaid(names.title(bundle), shortage, names),
    remedy: () =>
      "free space on the filesystem that the message names: old logs, images that nobody uses ('crictl rmi --prune', 'docker image prune -a'), or an old release ('stickpin unpin'); the preload then continues automatically",
    isOwn: true,
  },
  'engine/over-share': {
    short: 'D-08',
    means: 'The role has used up its share of the disk',
    event: 'noSpace',

    says: ({ bundle, share: { role, needed, used, max } }, { title, name }) => ({
      what: `No room for ${title(bundle)} in the share of role ${name(role)}: needs ${formatBytes(needed)}, the role has ${formatBytes(used)} of ${formatBytes(max)}`,
      next: `Raise max_bytes in ${name(role)}.toml, or give up an old release of the role`,
      run: "'stickpin unpin' gives one up",
    }),
    remedy: () =>
      "give up an old release of the role ('stickpin unpin'), or raise max_bytes in the file of the role; the preload then continues automatically",
    isOwn: true,
  },
  'runtime/policy': {
    short: 'R-11',
    means: 'policy.json of the node refuses images',

    says: ({ bundle, images, isMixed, first }, { title }) => ({
      what: `policy.json of this node refuses ${images} ${kindText(isMixed)} of ${title(bundle)}`,
      details: [`The runtime says of the first one: ${first.message}`],
      next: 'Let /etc/containers/policy.json accept them',
    }),
    remedy: (release) => `let /etc/containers/policy.json accept the images of ${release}`,
  },
  'runtime/version': {
    short: 'R-06',
    means: 'The container runtime is too old',
    event: 'reported-elsewhere',

    says: ({ runtime, needed }, { name }) => ({
      what: `${name(runtime)} is too old: stickpin needs ${needed} or newer`,
      details: ['Nothing is loaded, and pins stay as they are', "It can't report which images are pinned"],
      next: 'Upgrade and restart it; stickpin continues automatically',
    }),
    remedy: () => 'upgrade the runtime and restart it',
    isOwn: true,
  },
};

const KEPT = 'The setting preload.min_free_percent says how much is kept free';
const KEPT_FOR_KUBELET =
  'The setting preload.min_free_percent keeps that free for the kubelet, which otherwise removes images and ends pods';

function shortageSaid(
  title: string,
  {
    kind,
    path,
    needed,
    free,
    reserved,
    percent,
    isKeptForKubelet,
  }: Extract<RuntimeReason, { readonly code: 'engine/no-space' }>['data']['shortage'],
  { name }: Names,
): Said {
  const amount = (value: number) => (kind === 'inodes' ? `${value}` : formatBytes(value));
  const kept = reserved === 0 ? '' : `, ${amount(reserved)} (${percent} %) kept`;
  const needs =
    kind === 'staging' ? `the runtime stages ${amount(needed)} there while it pulls` : `needs ${amount(needed)}`;
  return {
    what: `Not enough ${kind === 'inodes' ? 'inodes' : 'space'} for ${title} on ${name(path)}: ${needs}, ${amount(free)} free${kept}`,
    details: reserved === 0 ? [] : [isKeptForKubelet === true ? KEPT_FOR_KUBELET : KEPT],
    next: kind === 'inodes' ? 'Remove files there' : 'Free space there',
    run: kind === 'staging' ? undefined : "'stickpin unpin' gives up an old release",
  };
}
