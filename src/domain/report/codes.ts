import type { Does } from './actions.ts';

/**
 * `does`: what a person does about a fault; of reasons and holds their entries say it. `means`: one
 * sentence, without full stop. `next`: what the administrator does, a clause; of reasons and holds
 * it is their remedy.
 */
type Row = readonly [short: string, code: string, means: string, next?: string, does?: Does];

/**
 * The short codes that people read out, sorted. A number never changes, and is not used again.
 * M: stick, B: bundle, K: keys, R: runtime, D: disk, S: state, C: settings, A: activation, F: other
 * nodes, H: hooks.
 */
// biome-ignore format: one code a line
const ROWS: readonly Row[] = [
  ['M-01', 'media/no-bundle', 'The stick has no folder stickpin with a bundle', 'write the bundle to the stick again', 'plug-in-other'],
  ['M-02', 'media/filesystem', 'The stick has no filesystem that is in media.filesystems, or it is encrypted', 'write the stick again with one of media.filesystems', 'plug-in-other'],
  ['M-03', 'media/mount', 'The stick could not be mounted', 'write the stick again; if that does not help, use another stick', 'plug-in-other'],
  ['M-04', 'media/read', 'The stick could not be read', 'try another port, then write the bundle to another stick', 'plug-in-other'],
  ['M-05', 'media/in-use', 'The stick is mounted by something else', 'unmount it, or copy the bundle to /var/lib/stickpin/incoming', 'call-support'],
  ['M-06', 'media/gone', 'The stick was removed while it was read', 'plug it in again', 'plug-in-again'],
  ['M-07', 'media/udev', 'What udev knows of the stick could not be read', "see 'systemctl status systemd-udevd'", 'call-support'],
  ['M-08', 'media/load', 'A folder or image could not be loaded', 'correct the path that the message names', 'call-support'],
  ['M-09', 'engine/stalled', 'The stick delivers nothing, or a pull makes no progress', 'unplug the stick and plug it in again, or try another port', 'plug-in-again'],
  ['M-10', 'engine/no-source', 'The stick was removed before all images were loaded'],
  ['M-11', 'bundle/blob-missing', 'Files of the release are on another stick'],
  ['M-12', 'engine/needs-copy', 'All copies of the release that were seen are damaged'],
  ['M-13', 'engine/no-base', 'The bundle has only changes, and the release below them is missing'],
  ['M-14', 'engine/offline', 'The bundle has no images, and registries are not allowed'],
  ['M-15', 'engine/cancelled', 'A person cancelled the loading'],
  ['M-16', 'engine/image-missing', 'Images of the release are gone from the node'],
  ['M-17', 'engine/image-damaged', 'Images of the release are damaged on the node'],
  ['M-18', 'engine/documents-missing', 'Manifests of the release are lost on the node'],
  ['M-19', 'media/blob-damaged', 'A file on the stick has wrong bytes', 'write the bundle to the stick again, best another one; if it was read with other bytes, try another port', 'plug-in-other'],
  ['M-20', 'media/blob-unreadable', 'A file on the stick could not be read', 'write the bundle to another stick', 'plug-in-other'],
  ['M-21', 'media/looking', 'stickpin has just started and reads the sticks'],
  ['M-22', 'media/reading', 'The stick is read again'],
  ['M-23', 'bundle/stick', 'The stick is not as stickpin writes it', 'write the stick again', 'plug-in-other'],
  ['B-01', 'bundle/arch', 'The bundle is made for another kind of machine'],
  ['B-02', 'bundle/sequence', 'The bundle is not newer than what the node has had'],
  ['B-03', 'bundle/version', 'The version has another form than those of its stream'],
  ['B-04', 'bundle/base', 'The bundle builds on a bundle of another stream'],
  ['B-05', 'bundle/expired', 'The bundle has expired'],
  ['B-06', 'bundle/from-the-future', 'The bundle says that it was made tomorrow or later'],
  ['B-07', 'bundle/absent', 'A file of the bundle is missing', 'write the bundle to the stick again', 'plug-in-other'],
  ['B-08', 'bundle/ambiguous', 'The bundle can be read in two ways', 'make the bundle again', 'call-support'],
  ['B-09', 'bundle/contents', 'The list of contents of the bundle has a fault', 'make the bundle again', 'call-support'],
  ['B-10', 'bundle/crowded', 'There are too many bundles in one folder', 'remove bundles from the stick', 'plug-in-other'],
  ['B-11', 'bundle/digest', 'A file of the bundle has wrong bytes', 'write the bundle to the stick again', 'plug-in-other'],
  ['B-12', 'bundle/envelope', 'The signed file of the bundle can not be read', 'write the bundle to the stick again', 'plug-in-other'],
  ['B-13', 'bundle/incomplete', 'The copy of the bundle was not finished', 'copy the bundle to the stick again', 'plug-in-other'],
  ['B-14', 'bundle/inconsistent', 'Parts of the bundle contradict each other', 'make the bundle again', 'call-support'],
  ['B-15', 'bundle/index', 'The index of images in the bundle has a fault', 'make the bundle again', 'call-support'],
  ['B-16', 'bundle/layout', 'The folder is no OCI layout', 'write the bundle to the stick again', 'plug-in-other'],
  ['B-17', 'bundle/link', 'The bundle has a symbolic link, which is not followed', 'write the bundle to the stick again without links', 'plug-in-other'],
  ['B-18', 'bundle/misplaced', 'The bundle is not in the folder stickpin of the stick', 'move it to stickpin/NAME', 'plug-in-other'],
  ['B-19', 'bundle/payload', 'What was signed has a fault', 'make the bundle again', 'call-support'],
  ['B-20', 'bundle/schema-version', 'The bundle is made for a newer stickpin', 'update stickpin on the node', 'call-support'],
  ['B-21', 'bundle/tar', 'The archive of the bundle has a fault', 'copy the archive again', 'plug-in-other'],
  ['B-22', 'bundle/source', 'A document of the bundle has a fault', 'make the bundle again', 'call-support'],
  ['B-23', 'bundle/option', 'A value in the bundle or a command is not valid', 'correct what the message names', 'call-support'],
  ['B-24', 'bundle/worker', 'The process that reads documents of bundles failed', "see 'journalctl -u stickpin'; it is started again", 'wait'],
  ['B-25', 'bundle/registry', 'A registry did not give a bundle', 'see docs/link.md; it is retried', 'wait'],
  ['B-26', 'bundle/not-in-bundle', 'The runtime requested an image that is in no bundle', 'add the image to a bundle', 'call-support'],
  ['K-01', 'trust/no-key', 'The node trusts no key', 'copy the .pub file of the factory to /etc/stickpin/keys.d, if you trust it', 'call-support'],
  ['K-02', 'trust/private-key', 'A private key is on the node', "delete the file, make a new key with 'stickpin keygen', give its .pub file to all nodes, and revoke the old key", 'call-support'],
  ['K-03', 'bundle/unknown-key', 'A key that the node does not know signed the bundle', 'copy the .pub file of the factory to /etc/stickpin/keys.d, if you trust it', 'call-support'],
  ['K-04', 'bundle/no-key', 'The bundle can not be judged, since no key is trusted', "copy the .pub file of the factory to /etc/stickpin/keys.d; if a revocation was a mistake, run 'stickpin trust restore KEYID'", 'call-support'],
  ['K-05', 'bundle/revoked-key', 'A revoked key signed the bundle', "bring it signed by a trusted key; if the revocation was a mistake, run 'stickpin trust restore KEYID'", 'call-support'],
  ['K-06', 'bundle/unsigned', 'Nobody signed the bundle', "sign it with 'stickpin bundle sign'", 'call-support'],
  ['K-07', 'bundle/bad-signature', 'The signature does not fit the bundle', 'make or copy the bundle again; somebody may have changed it', 'call-support'],
  ['K-08', 'bundle/threshold', 'Too few trusted keys signed the bundle', "sign it with more keys ('stickpin bundle sign')", 'call-support'],
  ['K-09', 'bundle/outside-role', 'The key may not sign this release: its stream, a repository, or how long it is kept', 'sign it with another key, or correct the role', 'call-support'],
  ['K-10', 'bundle/rotation', 'The keys that the bundle brings or revokes have a fault', 'make the bundle again', 'call-support'],
  ['K-11', 'bundle/key-file', 'A file of keys can not be used', "see 'stickpin doctor' and correct the file", 'call-support'],
  ['K-12', 'bundle/role-file', 'A file of roles can not be used', "see 'stickpin doctor' and correct the file", 'call-support'],
  ['K-13', 'bundle/revocations-unreadable', 'Nothing is trusted, since the list of revoked keys can not be read', 'correct the file that the message names; pins stay', 'call-support'],
  ['K-14', 'bundle/revocation-record', 'The record of revoked keys has a fault', "see 'stickpin doctor'", 'call-support'],
  ['K-15', 'trust/approval', 'A person must approve the bundle'],
  ['K-16', 'trust/rejected', 'A person rejected the bundle on this node'],
  ['K-17', 'trust/blind', 'The key of the release may be revoked, which can not be read'],
  ['K-18', 'trust/threshold', 'More trusted keys are needed now than signed the release'],
  ['K-19', 'trust/role', 'The role that signed the release may not do so any more'],
  ['K-20', 'trust/key-revoked', 'The key that signed the release was revoked'],
  ['K-21', 'trust/withdrawn', 'The release is not trusted now'],
  ['R-01', 'runtime/absent', 'The node has no container runtime', 'install CRI-O, containerd, Docker or Podman, or start it; for another socket, set runtime.socket', 'call-support'],
  ['R-02', 'runtime/unreachable', 'The container runtime does not answer', "start it: 'systemctl status crio', containerd, docker, k3s or rke2-server says why it does not run", 'call-support'],
  ['R-03', 'runtime/unlisted', 'The container runtime does not list its images', 'read the journal of the runtime', 'wait'],
  ['R-04', 'runtime/storage-damaged', 'The storage of CRI-O is damaged', 'drain the node, and run the commands that the message names', 'call-support'],
  ['R-05', 'runtime/stopping', 'The container runtime is being stopped', 'nothing: it continues when the runtime runs again', 'wait'],
  ['R-06', 'runtime/version', 'The container runtime is too old'],
  ['R-07', 'runtime/pull-failed', 'The runtime could not pull an image', 'it is retried; if it fails for minutes, do what the message says', 'wait'],
  ['R-08', 'runtime/config', 'A file for the runtime could not be written or is not read', 'correct the file that the message names', 'call-support'],
  ['R-09', 'runtime/mirrors-hidden', 'Another file takes our mirrors away', 'rename or correct the file of registries.conf.d that the message names, then reload CRI-O', 'call-support'],
  ['R-10', 'engine/mirror-unused', 'The runtime did not pull from this node', "see 'stickpin doctor'", 'call-support'],
  ['R-11', 'runtime/policy', 'policy.json of the node refuses images'],
  ['R-12', 'runtime/pins-pending', 'Images are not pinned yet'],
  ['R-13', 'runtime/pins-ignored', 'The runtime does not pin images'],
  ['R-14', 'runtime/digest-mismatch', 'The runtime has another image than was pulled', 'it is retried; check the disk and memory of the node', 'call-support'],
  ['R-15', 'runtime/not-found', 'No source has the image', 'plug in the stick of the release', 'plug-in'],
  ['R-16', 'runtime/write', 'The runtime could not write to its storage', 'check the disk of the runtime', 'call-support'],
  ['R-17', 'runtime/cancelled', 'A pull was cancelled', 'nothing: it is retried', 'wait'],
  ['R-18', 'registry/listen', 'The registry of the node could not open its port', "see 'systemctl status stickpin-registry.socket'", 'call-support'],
  ['R-19', 'engine/tag-contested', 'Something takes a tag of the release away again and again'],
  ['R-20', 'engine/tags', 'Tags could not be given', 'it is retried', 'wait'],
  ['R-21', 'engine/tag-mismatch', 'A tag names another image than it should', 'find out what else gives the tag; it is retried', 'call-support'],
  ['R-22', 'engine/activation', 'The release could not be activated', "see 'stickpin show'; it is retried", 'wait'],
  ['R-23', 'engine/components-failing', 'Containers of the release fail', "see its pods; 'stickpin rollback NAME' takes the release before", 'call-support'],
  ['R-24', 'domain/reference', 'The name of an image is not valid', 'make the bundle again', 'call-support'],
  ['R-25', 'engine/not-listed', 'The runtime does not list an image that it has pulled', 'read the journal of the runtime; it is retried', 'wait'],
  ['R-26', 'runtime/sync-pending', 'Images are still being written to the disk'],
  ['R-27', 'engine/unchecked', 'Images are still being checked after a power cut'],
  ['R-28', 'runtime/unfit-image', 'The runtime can not use an image of the release', 'make the bundle again with an image in a form that the message names', 'call-support'],
  ['D-01', 'engine/no-space', 'The disk has too little room for the release'],
  ['D-02', 'runtime/no-space', 'The disk of the runtime is full', 'free space there; it continues automatically', 'call-support'],
  ['D-03', 'runtime/read-only', 'The disk of the runtime is read-only', 'check it, and mount it writable', 'call-support'],
  ['D-04', 'store/no-space', 'The disk of stickpin is full', 'free space on the filesystem that the message names', 'call-support'],
  ['D-05', 'store/read-only', 'The disk of stickpin is read-only', 'check it, and mount it writable', 'call-support'],
  ['D-06', 'bundle/no-space', 'A folder for bundles has too little room', 'free space there', 'call-support'],
  ['D-07', 'host/sync', 'What was loaded could not be brought to the disk', 'look for errors of the disk in dmesg; it is tried again', 'call-support'],
  ['D-08', 'engine/over-share', 'The role has used up its share of the disk'],
  ['S-00', 'unforeseen', 'Something failed that has no code of its own', "the message and 'journalctl -u stickpin' say what; run 'sudo stickpin report' and send the file to support", 'call-support'],
  ['S-01', 'store/damaged', 'The state database is damaged', "check the disk, run 'systemctl restart stickpin', and plug in the stick of each release", 'call-support'],
  ['S-02', 'store/lost', 'The state database was lost', 'plug in the stick of each release that is to stay', 'call-support'],
  ['S-03', 'store/floors-lost', 'The records of earlier releases are lost', 'check each release before you activate it', 'call-support'],
  ['S-04', 'store/row', 'A record of the state can not be read', "see 'sudo stickpin doctor'", 'call-support'],
  ['S-05', 'store/version', 'Another version of stickpin wrote the state', 'install that version again', 'call-support'],
  ['S-06', 'store/in-use', 'Another stickpin runs on the same folders', 'stop one of them', 'call-support'],
  ['S-07', 'store/dying', 'An earlier stickpin is not gone yet', 'nothing: it is started again', 'wait'],
  ['S-08', 'store/read', 'A file of the state can not be read', 'check the disk', 'call-support'],
  ['S-09', 'store/write', 'A file of the state could not be written', 'check the disk', 'call-support'],
  ['S-10', 'store/open', 'The state database could not be opened', 'check the disk and the folder that the message names', 'call-support'],
  ['S-11', 'store/aside', 'A damaged file could not be put aside', 'move it by hand', 'call-support'],
  ['S-12', 'store/blob', 'A kept file is damaged or could not be kept', 'plug in the stick of the release', 'plug-in'],
  ['S-13', 'store/attachment', 'An attached file could not be written', 'check the disk', 'call-support'],
  ['S-14', 'store/release-files', 'The folder of attached files could not be written', 'check the disk', 'call-support'],
  ['S-15', 'engine/lost-in-part', 'Part of what was recorded is lost', "'sudo stickpin doctor' names the file; plug in the stick of each release that is to stay", 'call-support'],
  ['S-16', 'engine/unclaimed', 'Pinned images belong to no known release', "plug in the stick of that release, or give the pins up with 'stickpin unpin --unclaimed'", 'plug-in'],
  ['S-17', 'engine/effect', 'A step of the daemon failed', 'it is retried; see the journal', 'wait'],
  ['S-18', 'engine/task', 'A task of the daemon failed', 'it is retried; see the journal', 'wait'],
  ['S-19', 'platform/deadline', 'Something took too long', 'it is retried', 'wait'],
  ['S-20', 'platform/bus-unreachable', 'D-Bus does not answer', "see 'systemctl status dbus'", 'call-support'],
  ['C-01', 'config/refused', 'The new settings have a fault, and those from before hold', "run 'stickpin config check' and correct the files that it names", 'call-support'],
  ['C-02', 'config/file', 'A file of settings can not be read', "correct it, and run 'stickpin config check'", 'call-support'],
  ['C-03', 'config/key', 'A setting has a wrong name or value', "correct it, and run 'stickpin config check'", 'call-support'],
  ['C-04', 'config/syntax', 'A file of settings is no TOML', "correct it, and run 'stickpin config check'", 'call-support'],
  ['C-05', 'config/wrong', 'The settings had a fault at the start, and nothing is changed', "run 'stickpin config check' and correct the files that it names", 'call-support'],
  ['A-01', 'engine/manual', 'The release is loaded, and an administrator activates it'],
  ['A-02', 'rule/from', 'The release does not follow the current one'],
  ['A-03', 'rule/barrier', 'Another release must be activated first'],
  ['A-04', 'rule/downgrade', 'The release is older than the current one'],
  ['A-05', 'rule/deadend', 'The current release is a dead end'],
  ['A-06', 'rule/rollout', 'It is not the turn of this node yet'],
  ['A-07', 'rule/end-of-life', 'The release is past its end of life'],
  ['A-08', 'window', 'The release waits for a maintenance window'],
  ['A-09', 'clock', 'The clock of the node is wrong'],
  ['A-10', 'engine/denied', 'The release was rolled back before'],
  ['A-11', 'engine/not-next', 'Another release is activated first'],
  ['A-12', 'engine/floor-unknown', 'It is not known what ran on the node before'],
  ['A-13', 'engine/below-floor', 'A newer release was activated before'],
  ['A-14', 'engine/tag-of-other-stream', 'A tag belongs to a release of another stream'],
  ['A-15', 'engine/pulls-from-elsewhere', 'Pods use images that no bundle has'],
  ['A-16', 'engine/content-unchecked', 'Images are checked before the activation'],
  ['A-17', 'engine/content-damaged', 'Damaged images hold the activation'],
  ['A-18', 'engine/tags-in-motion', 'Another release is being activated'],
  ['A-19', 'engine/activation-failed', 'The activation failed and is retried'],
  ['A-20', 'engine/rolled-back', 'The release was rolled back'],
  ['A-21', 'engine/retired', 'The release was given up on this node', "to use it again, run 'stickpin activate' with its name", 'call-support'],
  ['A-22', 'engine/current-unknown', 'It is not known which release runs', 'set streams.NAME.current to the release that runs', 'call-support'],
  ['F-01', 'fleet/unknown', 'stickpin-fleet.service does not answer'],
  ['F-02', 'fleet/nobody-known', 'No other node is known'],
  ['F-03', 'fleet/failed', 'Another node failed with the release'],
  ['F-04', 'fleet/not-ready', 'Other nodes load the release first'],
  ['F-05', 'fleet/order', 'Other nodes activate the release first'],
  ['F-06', 'media/peer-waited-for', 'Another node gives the release later'],
  ['F-07', 'fleet/wanted', 'Other nodes have a release that no node can give', 'plug its stick into any node', 'plug-in'],
  ['F-08', 'fleet/answer', 'Another node gave a wrong answer', 'it is retried; run the same stickpin on all nodes', 'wait'],
  ['F-09', 'fleet/denied', 'Another node refuses this node', "see 'stickpin fleet status'", 'call-support'],
  ['F-10', 'fleet/identity', 'The node has no certificate for other nodes', "see 'stickpin fleet status'", 'call-support'],
  ['F-11', 'fleet/listen', 'The port for other nodes could not be opened', 'free the port, or set fleet.port', 'call-support'],
  ['F-12', 'fleet/refused', 'Another node is not what it says', "see 'stickpin fleet status'", 'call-support'],
  ['F-13', 'fleet/unreachable', 'Another node does not answer', 'it is retried', 'wait'],
  ['F-14', 'offers/answer', 'stickpin-fleet or stickpin-sources gave a wrong answer', "see 'journalctl -u stickpin-fleet -u stickpin-sources'", 'wait'],
  ['F-15', 'offers/busy', 'Another node serves others now', 'nothing: it is retried', 'wait'],
  ['F-16', 'offers/failed', 'Another node or a registry could not give a bundle', 'it is retried', 'wait'],
  ['F-17', 'offers/listen', 'A socket for stickpin-fleet or stickpin-sources could not be opened', "see 'systemctl status stickpin'", 'call-support'],
  ['F-18', 'offers/unreachable', 'stickpin-fleet or stickpin-sources does not answer', "see 'systemctl status stickpin-fleet stickpin-sources'", 'wait'],
  ['F-19', 'kubernetes/answer', 'The Kubernetes API gave a wrong answer', 'it is retried', 'wait'],
  ['F-20', 'kubernetes/busy', 'The Kubernetes API is busy', 'nothing: it is retried', 'wait'],
  ['F-21', 'kubernetes/conflict', 'The object changed in the Kubernetes API', 'nothing: it is retried', 'wait'],
  ['F-22', 'kubernetes/forbidden', 'The node may not do this in the Kubernetes API', 'see docs/fleet.md', 'call-support'],
  ['F-23', 'kubernetes/gone', 'The Kubernetes API has no such version any more', 'nothing: it is read anew', 'wait'],
  ['F-24', 'kubernetes/kubeconfig', 'The kubeconfig of the node can not be used', 'correct the file that the message names', 'call-support'],
  ['F-25', 'kubernetes/no-bookmarks', 'The Kubernetes API sends no bookmarks', 'nothing: the nodes are read anew', 'wait'],
  ['F-26', 'kubernetes/not-found', 'The Kubernetes API does not know the object', 'see docs/fleet.md', 'call-support'],
  ['F-27', 'kubernetes/refused', 'The Kubernetes API refused a request', 'see docs/fleet.md', 'call-support'],
  ['F-28', 'kubernetes/unauthorized', 'The Kubernetes API does not accept the node', 'see the kubelet of the node', 'call-support'],
  ['F-29', 'kubernetes/unreachable', 'The Kubernetes API does not answer', 'it is retried', 'wait'],
  ['F-30', 'fleet/left-out', 'Another node sent more than it may, and is left out', "see 'stickpin fleet status', and check that node", 'call-support'],
  ['F-31', 'fleet/soak', 'A canary has to run the release for longer'],
  ['F-32', 'fleet/cordoned', 'The Node is cordoned, so the order leaves it out'],
  ['F-33', 'fleet/reading', 'The Nodes of the cluster are read first'],
  ['F-34', 'fleet/paused', 'The roll-out of the release is paused'],
  ['F-35', 'fleet/lock', 'The activation waits for a lock of the FleetLock server'],
  ['F-36', 'fleet/settle', 'Another node has to run the release well for longer'],
  ['F-37', 'fleet/unavailable', 'Other nodes are unavailable'],
  ['F-38', 'fleet/no-canary', 'No node that takes part has the labels of the canaries'],
  ['F-39', 'fleet/off', 'The node is not in a fleet', "set fleet.enabled, and run 'systemctl enable --now stickpin-fleet.service'", 'call-support'],
  ['H-01', 'hook', 'The activation waits for a hook'],
  ['H-02', 'engine/hook-failed', 'A hook failed', "run 'stickpin status', then see the unit that it names", 'call-support'],
  ['H-03', 'engine/hook', 'A hook could not be run', 'it is retried; see the unit that the message names', 'wait'],
  ['H-04', 'host/hook-file', 'A file for a hook could not be written', 'check /run/stickpin', 'call-support'],
  ['H-05', 'host/unit', 'systemd could not start or stop a unit', "see 'systemctl status' of the unit", 'call-support'],
  ['H-06', 'host/no-such-unit', 'A unit of the settings does not exist', 'install it, or correct the settings', 'call-support'],
  ['H-07', 'host/static-pods', 'The static pods of the node can not be read', 'see the folder that the message names', 'call-support'],
  ['H-08', 'host/vt', 'The screen of the node could not be used', 'see the unit of the screen', 'call-support'],
];

interface CodeRow {
  /** `M-12` */
  readonly short: string;
  /** `engine/needs-copy` */
  readonly code: string;
  readonly means: string;
  readonly next: string | undefined;
  readonly does: Does | undefined;
}

export const CODES: readonly CodeRow[] = ROWS.map(([short, code, means, next, does]) => ({
  short,
  code,
  means,
  next,
  does,
}));

const BY_CODE = new Map(CODES.map((row) => [row.code, row]));

/** For what nobody foresaw. */
const UNFORESEEN = 'S-00';

/** `M-12` for `engine/needs-copy`; undefined for a code without one. */
export function knownShortCode(code: string): string | undefined {
  return BY_CODE.get(code)?.short;
}

/** As {@link knownShortCode}, or that nobody foresaw it. */
export function shortCode(code: string): string {
  return knownShortCode(code) ?? UNFORESEEN;
}

/** What a person does about a fault. */
export function doesAbout(code: string): Does {
  return BY_CODE.get(code)?.does ?? 'call-support';
}

/** What a code means, as a sentence for somebody who has only the screen of the node. */
export function meaningOf(code: string): string {
  return `${(BY_CODE.get(code) ?? BY_CODE.get('unforeseen'))?.means ?? ''}.`;
}
