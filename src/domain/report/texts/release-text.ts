import { assertNever } from '../../../platform/app-error.ts';
import { oneLine } from '../../../platform/plain-text.ts';
import { formatBytes, formatCount, formatDuration } from '../../../platform/sizes.ts';
import { bundleName, bundleTitle } from '../../model/bundle.ts';
import type { Phase } from '../../model/condition.ts';
import { shortDigest } from '../../model/digest.ts';
import type { ContentFault, DamageOutcome } from '../../model/reason.ts';
import type { ElsewhereUse } from '../../release/pulls.ts';
import type { KeptWhy } from '../../release/retention.ts';
import type { CheckCause, PullCheck, RunningCheck } from '../../state/checks.ts';
import type { HookFailure } from '../../state/hook.ts';
import type { StoredBundle } from '../../state/state.ts';
import type { StreamRelease, StreamReport } from '../status-schema.ts';

export function contentFaultText(fault: ContentFault): string {
  switch (fault.kind) {
    case 'blob':
      return `${shortDigest(fault.digest)} is ${WHY[fault.why]}`;
    case 'document-absent':
      return `its manifest or config ${shortDigest(fault.digest)} is gone`;
    case 'layer-absent':
      return `its layer ${shortDigest(fault.digest)} is neither unpacked nor there as a blob`;
    case 'not-unpacked':
      return 'the runtime has not unpacked it, so that no container can start from it';
    case 'records':
      return fault.what;
    default:
      return assertNever(fault);
  }
}

const WHY = {
  lost: 'gone, though the runtime has a record of it',
  truncated: 'truncated',
  altered: 'altered',
  unreadable: 'unreadable',
} as const;

interface DamagedImage {
  /** The title of a release that has the image. */
  readonly title: string;
  /** The base with the layers that this release left out. */
  readonly base?: string | undefined;
  /** Default: `It`. */
  readonly subject?: string;
}

/** Returns a sentence. */
export function damageNextText(next: DamageOutcome, { title, base, subject = 'It' }: DamagedImage): string {
  const stick = `plug in the stick of ${title}${base === undefined ? '' : `, and that of its base ${base}`}`;
  return {
    heal: `${subject} is removed and pulled again.`,
    'plug-in': `${subject} stays until its blobs are at hand: ${stick}.`,
    cancelled: `${subject} stays, since the preload of ${title} was cancelled: run 'stickpin rescan'.`,
    'in-use': `${subject} stays while a container uses it: stop its pod, and it is removed and pulled again.`,
    shared: `${subject} can't be repaired yet: another damaged image, still in use, shares its data.`,
    look: `${subject} stays until the containers of the node are known.`,
    'give-up': `${subject} was pulled again twice and is still damaged: check the disk, then run 'stickpin verify-images'.`,
  }[next];
}

export function checkLine({ cause, done, total, readBytes }: RunningCheck): string {
  const read = readBytes === 0 ? '' : `, ${formatBytes(readBytes)} read`;
  return `Checking the content of images${CHECK_CAUSE[cause]}: ${done}/${total}${read}`;
}

export const CHECK_CAUSE: Readonly<Record<CheckCause, string>> = {
  'unclean-boot': ', since the node was not shut down before it was booted',
  request: '',
  again: ' again',
};

const SOURCES: Readonly<Record<NonNullable<StreamReport['current']>['source'], string>> = {
  activated: 'activated last',
  running: 'its containers run',
  setting: 'says the setting streams.NAME.current',
};

/**
 * Lists the releases by their order. `*` marks the present one and `>` the next one. Below each are
 * its barrier, its dead end, and the releases that lead to it. Lines are not wrapped.
 */
export function graphText({ name, scheme, current, next, notes, releases }: StreamReport): string {
  const versions = scheme === undefined ? '' : ` (versions: ${scheme})`;
  const position =
    current === undefined ? 'unknown' : `${current.version}, ${SOURCES[current.source].replace('NAME', name)}`;
  const head = [
    oneLine(`Stream ${name}${versions}`),
    oneLine(`Present release: ${position}`),
    ...(next === undefined ? [] : [oneLine(`Next release: ${next}`)]),
  ];
  const nodes = releases.flatMap((release) => nodeLines(release, current?.version, next));
  return `${[...head, '', ...nodes, ...notes.flatMap((note) => ['', oneLine(note)])].join('\n')}\n`;
}

function nodeLines(release: StreamRelease, current: string | undefined, next: string | undefined): string[] {
  const { version, sequence, phase, from, barrier, deadend } = release;
  const mark = version === current ? '*' : version === next ? '>' : ' ';
  const what = [
    ...(sequence === undefined ? [] : [`sequence ${sequence}`]),
    phase === 'absent' ? 'not here' : phase,
    ...(version === current ? ['present'] : []),
    ...(version === next ? ['next'] : []),
  ];
  const below = [
    ...(barrier === undefined ? [] : [`barrier: ${barrier}`]),
    ...(deadend === undefined ? [] : [`dead end: ${deadend}`]),
    ...(from.length === 0 ? [] : [`<- ${from.join(', ')}`]),
  ];
  return [`${mark} ${oneLine(`${version} (${what.join(', ')})`)}`, ...below.map((line) => `    ${oneLine(line)}`)];
}

/** Returns a clause that begins with the unit. */
export function hookFailureText(unit: string, why: HookFailure): string {
  switch (why.kind) {
    case 'absent':
      return `there is no unit ${unit}: install it, or correct the settings in [hooks]`;
    case 'not-loaded':
      return `${unit} can't be started, since systemd says that it is "${why.state}": see 'systemctl status ${unit}'`;
    case 'active':
      return `${unit} is active already, so that starting it does nothing: it needs Type=oneshot, without RemainAfterExit=yes`;
    case 'not-signed':
      return `${unit} is not started, since no key of unit_keys of its stream signed the release: see [streams] in the settings, and 'stickpin trust list'`;
    case 'ended': {
      const { job, result, status } = why;
      const how = `${job}${result === undefined ? '' : `: ${result}`}${status === undefined ? '' : `, status ${status}`}`;
      return `${unit} ${how}; see 'journalctl -u ${unit}'`;
    }
    case 'unasked':
      return `${unit} could not be run: ${why.message}`;
    default:
      return assertNever(why);
  }
}

export function keptText(bundle: StoredBundle, why: KeptWhy): string {
  switch (why.kind) {
    case 'protected':
      return bundle.payload.keep === 'life'
        ? 'kept for good, as its bundle says'
        : 'kept for good by lifecycle.protect';
    case 'wanted':
      return 'kept since its activation was asked for';
    case 'base':
      return 'kept until the delta that builds on it is complete';
    case 'last-good':
      return `kept as the last known good release, until ${bundleTitle(why.current.payload)} is proven`;
    case 'fallback':
      return `kept as a fallback (lifecycle.keep = ${why.keep}), until newer releases are proven`;
    case 'unproven': {
      const what = why.isRolledBack ? 'it was rolled back' : 'it was never proven';
      const until = `until ${bundleTitle(why.current.payload)} is proven and has a higher sequence`;
      return `kept, since ${what}, ${until}; 'stickpin unpin ${bundleName(bundle.payload)}' gives it up`;
    }
    case 'surplus':
      return 'kept only while containers run from it';
    case 'not-whole':
      return `kept until ${bundleTitle(why.good.payload)} is whole: all its images present, pinned and checked`;
    default:
      return assertNever(why);
  }
}

const NAMED = 20;

/** Returns one sentence or two, without full stop. */
export function pullCheckText({ reference, end }: PullCheck): string {
  const pull = `the pull of ${reference}, which is present,`;
  switch (end.kind) {
    case 'answered':
      return end.isProbe === true
        ? `stickpin's registry answered a request of the runtime for the repository of ${reference}`
        : `the runtime pulled ${reference}, and stickpin's registry answered it`;
    case 'not-asked':
      return `the runtime pulled ${reference} from another registry and requested nothing from stickpin's, so that the pull fails without a network. ${LOOK_AT_MIRRORS}`;
    case 'not-sent':
      return `the runtime pulled ${reference} from another registry, since stickpin's has no manifest and configuration of it to send. So the pull fails without a network. ${LOOK_AT_DOCUMENTS}`;
    case 'failed': {
      const why = end.reason.message;
      if (!end.isAsked)
        return `${pull} failed, and the runtime requested nothing from stickpin's registry: ${why}. ${LOOK_AT_MIRRORS}`;
      return end.isSent
        ? `${pull} failed although stickpin's registry answered: ${why}. ${LOOK_AT_JOURNAL}`
        : `${pull} failed, since stickpin's registry has no manifest and configuration of it to send: ${why}. ${LOOK_AT_DOCUMENTS}`;
    }
    case 'timed-out':
      return `${pull} did not end within ${formatDuration(end.afterMs)}. ${LOOK_AT_JOURNAL}`;
    case 'runtime-away':
      return `the pull of ${reference} could not be tested: ${end.reason.message}. Run 'stickpin doctor' when the runtime answers`;
    case 'image-gone':
      return `the pull of ${reference} could not be tested, since the image was removed meanwhile`;
    default:
      return assertNever(end);
  }
}

const LOOK_AT_JOURNAL = "Read the journal of the runtime, and run 'stickpin doctor' again";
const LOOK_AT_DOCUMENTS = 'Plug in the stick of its release, and stickpin keeps them again';
const LOOK_AT_MIRRORS = "'stickpin doctor' says whether the runtime reads its mirrors; restart it if it does";

/** @param uses at least one */
export function elsewhereText(uses: readonly ElsewhereUse[]): string {
  const named = uses.slice(0, NAMED).map(({ image, usedBy, more, release }) => {
    const others = more === 0 ? '' : ` and ${more} more`;
    const later = release === undefined ? '' : `; ${release} provides it once it is activated`;
    return `${image} (${usedBy}${others}${later})`;
  });
  const more = uses.length > NAMED ? `, and ${uses.length - NAMED} more` : '';
  const count = formatCount(uses.length, 'image');
  return `no activated release answers a pull of ${count}, so that it fails without a network: ${named.join(', ')}${more}. ${elsewhereAdvice(uses)}, or use names that a release provides`;
}

function elsewhereAdvice(uses: readonly ElsewhereUse[]): string {
  const releases = [...new Set(uses.flatMap(({ release }) => release ?? []))].join(' and ');
  const lacking = uses.filter(({ release }) => release === undefined).length;
  if (lacking === 0) return `Activate ${releases}`;
  const names = lacking === 1 ? 'this name' : 'these names';
  if (releases === '') return `Add ${lacking === 1 ? 'it' : 'them'} to a bundle under ${names}`;
  return `Activate ${releases}, and add ${lacking === 1 ? 'the other one' : 'the others'} to a bundle under ${names}`;
}

/** The table in docs/architecture.md is made from these texts. */
export const PHASE_MEANINGS: Readonly<Record<Phase, string>> = {
  detected: 'seen on a medium, not judged or not adopted yet',
  rejected: 'may not be trusted or is malformed; the reason names the file, the field, the digest',
  held: 'the preload must wait: approval, base, space, media, runtime or runtime-version, or was cancelled',
  preloading: 'images are being pulled',
  ready: 'every image is present by digest and reported pinned by the runtime',
  activated: 'its tags name its images; no evidence of running containers, or it was rolled back',
  active: 'containers run from the images that distinguish it',
  proven: 'it has been active for the soak time: the last known good release',
  superseded: 'an older proven release, kept as the fallback',
  retired: 'unpinned, its own images removed unless that is switched off',
};

/** @param names at least one */
export function unknownComponentsText(names: readonly string[]): string {
  const list = names.map((name) => JSON.stringify(name)).join(', ');
  return `retention.keep_components names ${list}, which no image of the releases on this node has: nothing is kept for it. Correct the setting if the name is wrong`;
}
