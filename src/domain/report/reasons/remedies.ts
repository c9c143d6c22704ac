import type { ActivationHold } from '../../gates/gates.ts';
import type { Fault, Reason } from '../../model/reason.ts';

/** What a person does. `undefined`: nothing, it ends automatically. `title`: as `ocp@4.13.7`. */
type Remedy = ((title: string) => string) | undefined;

const SIGN_AGAIN = () => 'bring it signed again by a trusted key, or bring a newer release';
const ANYWAY = (title: string) => `to activate it anyway, run 'stickpin activate ${title}'`;

const REMEDIES: { readonly [Code in Exclude<Reason, Fault>['code'] | ActivationHold['code']]: Remedy } = {
  'bundle/arch': () => 'bring the bundle that is made for this kind of machine',
  'bundle/sequence': () =>
    "bring a bundle with a higher sequence, or run 'stickpin trust reset' for its stream and plug it in again",
  'bundle/version': () => 'make the bundle again with a version of the form that the message names',
  'bundle/base': () => 'make the bundle again with a base of its own stream, or without one',
  'bundle/expired': () => 'bring a newer bundle',
  'bundle/from-the-future': () => 'set the clock of the machine that made the bundle, and make it again',
  'trust/approval': () => "compare its digest with what its maker says, then run 'stickpin approve' with the digest",
  'trust/rejected': () => "remove its stick, or run 'stickpin approve' with its digest to accept it again",
  'trust/blind': () => 'correct the file of revoked keys that the message names',
  'trust/threshold': SIGN_AGAIN,
  'trust/role': SIGN_AGAIN,
  'trust/key-revoked': SIGN_AGAIN,
  'trust/withdrawn': SIGN_AGAIN,
  'engine/no-base': () => 'plug in the stick of its base, or one with the whole release',
  'engine/cancelled': () => "plug its stick in again, or run 'stickpin rescan'",
  'engine/offline': () => 'plug in the stick that has its blobs, or set preload.online = true',
  'bundle/blob-missing': () => 'plug in the stick that carries the rest, or copy the bundle again',
  'engine/needs-copy': () =>
    "copy the bundle to a stick again, check it with 'stickpin bundle verify --full', and plug it in",
  'engine/no-source': () => "plug its stick in again, or run 'stickpin rescan'",
  'media/looking': undefined,
  'media/reading': undefined,
  'media/peer-waited-for': undefined,
  'engine/image-missing': (title) => `plug in the stick of ${title}, unless the images are pulled again already`,
  'engine/image-damaged': (title) => `plug in the stick of ${title}, and see 'stickpin verify-images ${title}'`,
  'engine/documents-missing': (title) => `plug in the stick of ${title}`,
  'runtime/pins-pending': undefined,
  'runtime/pins-ignored': () =>
    'look for another file that sets pinned_images and sorts after 99-stickpin.conf, and read the journal of the runtime',
  'engine/no-space': () => "free space on this filesystem, or run 'stickpin unpin' for an old release",
  'runtime/policy': (title) => `let /etc/containers/policy.json accept the images of ${title}`,
  'runtime/version': () => 'upgrade the runtime and restart it',
  'engine/tag-contested': (title) => `find out what moves the tag, then run 'stickpin activate ${title}'`,
  'engine/rolled-back': (title) =>
    `see 'stickpin history ${title}' for the cause; then plug in a newer release, or run 'stickpin activate ${title}'`,
  'engine/denied': (title) => `run 'stickpin activate ${title}' if it is the release that you want`,
  'engine/not-next': undefined,
  'rule/from': ANYWAY,
  'rule/barrier': (title) => `plug in the stick of the barrier; ${ANYWAY(title)}`,
  'rule/downgrade': ANYWAY,
  'rule/deadend': ANYWAY,
  'rule/rollout': ANYWAY,
  'rule/end-of-life': ANYWAY,
  window: ANYWAY,
  clock: () => 'set the clock of this node',
  'engine/floor-unknown': ANYWAY,
  'engine/below-floor': ANYWAY,
  'engine/manual': ANYWAY,
  'engine/tag-of-other-stream': () => "give up the other release with 'stickpin unpin', or use other tags",
  'engine/pulls-from-elsewhere': () => 'add the image to a bundle under this name, or let the pod use another image',
  'engine/content-unchecked': undefined,
  'engine/content-damaged': (title) => `plug in the stick of ${title}; ${ANYWAY(title)}`,
  'fleet/unknown': () => "see 'systemctl status stickpin-fleet' and start it",
  'fleet/nobody-known': undefined,
  'fleet/rolled-back': (title) =>
    `see 'stickpin history ${title}' on that node for the cause; then plug in a newer release, or run 'stickpin activate ${title}'`,
  'fleet/not-ready': undefined,
  'fleet/order': undefined,
  'engine/tags-in-motion': undefined,
  'engine/activation-failed': (title) => `see 'stickpin show ${title}'; the activation is tried again`,
  hook: () => "see 'systemctl status' of the unit that the message names",
};

export function endsByItself(code: string): boolean {
  return isKnown(code) && REMEDIES[code] === undefined;
}

function isKnown(code: string): code is keyof typeof REMEDIES {
  return Object.hasOwn(REMEDIES, code);
}

/**
 * A clause without full stop; undefined where it ends automatically. What an adapter reports says
 * it in its own message. `title`: as `ocp@4.13.7`.
 */
export function remedyFor(code: string, title: string): string | undefined {
  if (isKnown(code)) return REMEDIES[code]?.(title);
  return `see 'stickpin show ${title}' and 'journalctl -u stickpin -x'`;
}
