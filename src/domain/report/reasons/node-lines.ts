import { capital, cutAtWord, oneLine, sentence } from '../../../platform/plain-text.ts';
import { formatCount } from '../../../platform/sizes.ts';
import type { WantedRelease } from '../../fleet/turn.ts';
import { bundleTitle } from '../../model/bundle.ts';
import { awayCode, type UnlistedRuntime, type UnreachableRuntime } from '../../model/image.ts';
import type { NodeFacts } from '../../model/machine.ts';
import type { Medium } from '../../model/medium.ts';
import { doesAbout, meaningOf } from '../codes.ts';
import { foreignLine, type Line } from '../line.ts';
import type { Names } from '../names.ts';

/** Adds the text of a fault of the node itself to the entry of its code in faults.ts. */

function nodeLine(code: string, what: string): Line {
  return { does: doesAbout(code), code, says: () => ({ what, atNode: meaningOf(code) }) };
}

export function noBundleLine({ label }: Medium): Line {
  const code = 'media/no-bundle';
  const says = (names: Names) => ({
    what: `${names.medium(label)} carries no bundle (no folder stickpin/NAME with a bundle.dsse.json)`,
  });
  return { does: doesAbout(code), code, says };
}

/** Describes a process that started with wrong settings. @param fault names the file and the key */
export function wrongSettingsLine(fault: string, meanwhile: string): Line {
  return foreignLine({ does: 'call-support', code: 'config/wrong' }, 'The settings are wrong: ', fault, [
    meanwhile,
    "See 'stickpin config check'.",
  ]);
}

/**
 * Describes a service that can't start, until its next start. @param code of the error
 * @param reason its message
 */
export function startFaultLine(code = 'unforeseen', reason: string): Line {
  const does = doesAbout(code) === 'wait' ? 'wait' : 'call-support';
  return foreignLine({ does, code }, "Can't start: ", reason);
}

export function settingsLine({ settingsFault, keepsOnly }: NodeFacts): Line | undefined {
  if (settingsFault === undefined) return undefined;
  if (keepsOnly) return wrongSettingsLine(settingsFault, 'Until they are corrected, releases stay as they are.');
  const about = { does: 'call-support', code: 'config/refused' } as const;
  return foreignLine(about, 'The new settings are refused: ', settingsFault, ["See 'stickpin config check'."]);
}

export function blindLine(cause = "see 'stickpin doctor'"): Line {
  const about = { does: 'call-support', code: 'bundle/revocations-unreadable' } as const;
  const head = "Nothing is trusted, since revocations can't be read: ";
  return foreignLine(about, head, cause, ['What is pinned stays']);
}

export function lostLine(): Line {
  return nodeLine('engine/lost-in-part', "What was recorded is lost in part: see 'stickpin doctor'.");
}

export function fleetSilentLine(): Line {
  const what =
    "stickpin-fleet.service does not answer. See 'systemctl status stickpin-fleet'. It is not known which nodes need a stick.";
  return nodeLine('fleet/unknown', what);
}

/** @param trouble names the file, or the nodes */
export function keysLine(trouble: string): Line {
  const about = { does: doesAbout('fleet/keys'), code: 'fleet/keys' };
  return foreignLine(about, '', capital(trouble), ["See 'stickpin fleet status'"]);
}

export function wantedLine(release: WantedRelease): Line {
  return { does: doesAbout('fleet/wanted'), code: 'fleet/wanted', says: () => ({ what: wantedReleaseText(release) }) };
}

/** @param owners `ocp 4.13.7 and ocp 4.13.8` */
export function unclaimedLine(count: number, owners: string | undefined): Line {
  const of = owners === undefined ? '' : ` (${owners})`;
  const what = `${formatCount(count, 'unclaimed pin')}${of} ${count === 1 ? 'is' : 'are'} kept`;
  const code = 'engine/unclaimed';
  const next = owners === undefined ? undefined : `Plug in the stick of ${owners}`;
  const says = () => ({ what, atNode: meaningOf(code), next, run: "See 'stickpin list'" });
  return { does: doesAbout(code), code, says };
}

export function currentUnknownLine(note: string): Line {
  return nodeLine('engine/current-unknown', note);
}

export function currentUnknownText(stream: string): string {
  return `Nobody knows which release of ${stream} runs here, so neither "from" nor barriers apply: set streams.${stream}.current.`;
}

/** @param hooks `activated, proven` */
export function hookFailedLine(hooks: string): Line {
  return nodeLine('engine/hook-failed', `The hook ${hooks} failed: see 'stickpin status'.`);
}

/** @param notes why its stick must stay. Undefined while it is not plugged in */
export function retiredLine(
  title: (names: Names) => string,
  command: string,
  notes: readonly string[] | undefined,
): Line {
  return {
    does: doesAbout('engine/retired'),
    code: 'engine/retired',
    stick: notes && 'free',
    says: (names) => ({
      what: `${title(names)} was given up on this node`,
      notes: notes ?? [],
      run: `To use it again, run ${command}`,
    }),
  };
}

/** @param images `188 images` @param failing names of components */
export function failingLine(title: (names: Names) => string, images: string, failing: readonly string[]): Line {
  return {
    does: 'call-support',
    code: 'engine/components-failing',
    says: (names) => ({ what: `${title(names)} active (${images} pinned), but ${failing.join(', ')} failed.` }),
  };
}

export interface RuntimeAway {
  readonly code: string;
  /** One word, for conditions. */
  readonly word: string;
  /** The fault in a whole sentence. */
  readonly what: string;
  /** The action of a person in a whole sentence. */
  readonly next: string;
}

export function runtimeAway(runtime: UnlistedRuntime | UnreachableRuntime): RuntimeAway {
  const code = awayCode(runtime);
  const name = runtime.kind === 'unlisted' ? runtime.name : (runtime.stoppingUnit ?? '');
  const { word, what, next } = AWAY[code](runtime.reason, name);
  return { code, word, what: sentence(what), next };
}

type AwayText = (reason: string, name: string) => Omit<RuntimeAway, 'code'>;

const AWAY: Readonly<Record<ReturnType<typeof awayCode>, AwayText>> = {
  'runtime/storage-damaged': (_, name) => ({
    word: 'StorageDamaged',
    what: `${name} can't list its images: its storage is damaged`,
    next: "Drain the node, then run 'systemctl stop crio', 'crio check --quick --repair --force' and 'systemctl start crio'.",
  }),
  'runtime/unlisted': (reason, name) => ({
    word: 'ImagesUnknown',
    what: `${name} answers, but does not list its images: ${reason}`,
    next: "They are read again automatically; see the runtime's own journal.",
  }),
  'runtime/stopping': (_, unit) => ({
    word: 'RuntimeStopping',
    what: `${unit} is being stopped, so pulls were interrupted`,
    next: 'They continue automatically when it runs again.',
  }),
  'runtime/absent': (reason) => ({
    word: 'RuntimeUnreachable',
    what: `There is no container runtime: ${reason}`,
    next: 'stickpin continues automatically when a runtime runs.',
  }),
  'runtime/unreachable': (reason) => ({
    word: 'RuntimeUnreachable',
    what: `The container runtime does not answer: ${reason}`,
    next: 'stickpin continues automatically when it answers.',
  }),
};

export function wantedReleaseText(one: WantedRelease): string {
  const { what, next, why } = wantedWords(one);
  return `${what}: ${next}.${why === undefined ? '' : ` ${why}`}`;
}

/** `next` is a clause, `why` a sentence. */
export function wantedWords({ name, version, nodes, unreached }: WantedRelease) {
  const [first = '', ...others] = nodes;
  const where = others.length === 0 ? first : `${first} and ${formatCount(others.length, 'other node')}`;
  const title = bundleTitle({ name, version });
  if (unreached === undefined) {
    const what = `${title} is loaded on ${where}, and no node can give it`;
    return { what, next: 'plug its stick into any node', why: undefined };
  }
  const lacking = unreached.percent === 0 ? 'nothing of it is loaded' : `${unreached.percent} % of it is loaded`;
  const next = 'open TCP port 9777 between the nodes, or plug its stick into any node';
  const what = `${title} is on ${where}, which this node can't reach, and ${lacking}`;
  return { what, next, why: sentence(cutAtWord(oneLine(unreached.why), WHY_CHARACTERS)) };
}

/** Limits the answer of another node. */
const WHY_CHARACTERS = 200;
