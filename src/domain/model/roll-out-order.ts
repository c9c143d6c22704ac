/** The order in which the nodes of a cluster activate a release. */
export interface RollOutOrder {
  /** The place of nodes with the label `node-role.kubernetes.io/control-plane`. */
  readonly controlPlane: ControlPlanePlace;
  /** Label selectors, the first group first. Nodes of no group come after all groups. */
  readonly groups: readonly string[];
  /** A number of nodes, or those with these labels, come before all others. */
  readonly canary: Canary | undefined;
  /** How many nodes of a group may activate it at once: the least of these, or 1 if it is empty. */
  readonly maxUnavailable: readonly MaxUnavailable[];
  /** Whether a rollback on this node pauses the roll-out on all. Default `pause`. */
  readonly onRollback?: OnRollback | undefined;
  /** How long a node must run the release and be Ready until it counts as done. */
  readonly settleMs?: number | undefined;
  /** The phase that a node must reach. Canaries must always be `proven`. Default `activated`. */
  readonly done?: OrderGoal | undefined;
  /** How many failed nodes make the rest wait for a person. Default 1. */
  readonly pauseAfterFailures?: number | undefined;
}

/** Bundle format, `update.order`. `groups` and `labels` are label selectors. */
export interface ReleaseOrder {
  readonly controlPlane?: ControlPlanePlace;
  readonly groups?: readonly string[];
  readonly canary?: { readonly nodes?: number; readonly labels?: string; readonly soakMinutes?: number };
  readonly maxUnavailable?: MaxUnavailable;
  readonly onRollback?: OnRollback;
  readonly settleSeconds?: number;
  readonly done?: OrderGoal;
  readonly pauseAfterFailures?: number;
}

export const CONTROL_PLANE_PLACES = ['last', 'first', 'with'] as const;

export type ControlPlanePlace = (typeof CONTROL_PLANE_PLACES)[number];

export const ON_ROLLBACK = ['pause', 'go-on'] as const;

type OnRollback = (typeof ON_ROLLBACK)[number];

export const ORDER_GOALS = ['activated', 'proven'] as const;

type OrderGoal = (typeof ORDER_GOALS)[number];

const SETTLE_MS = 120_000;

export interface Canary {
  readonly nodes: number | string;
  /** How long all canaries run the release before another node activates it. */
  readonly soakMs: number;
}

/** A number of nodes, or a share of the group such as `25%`. */
export type MaxUnavailable = number | `${number}%`;

export const BY_NAME: RollOutOrder = { controlPlane: 'with', groups: [], canary: undefined, maxUnavailable: [] };

const DEFAULT_SOAK_MINUTES = 60;

/** Bundle format, `update.order`. */
export function orderOfRelease(order: ReleaseOrder): RollOutOrder {
  const { controlPlane, groups, canary, maxUnavailable = 1, onRollback, settleSeconds } = order;
  const { nodes, labels, soakMinutes = DEFAULT_SOAK_MINUTES } = canary ?? {};
  const chosen = nodes ?? labels;
  return {
    controlPlane: controlPlane ?? BY_NAME.controlPlane,
    groups: groups ?? BY_NAME.groups,
    canary: chosen === undefined ? undefined : { nodes: chosen, soakMs: soakMinutes * 60_000 },
    maxUnavailable: [maxUnavailable],
    onRollback,
    settleMs: settleSeconds === undefined ? undefined : settleSeconds * 1_000,
    done: order.done,
    pauseAfterFailures: order.pauseAfterFailures,
  };
}

/**
 * A node's own settings only make the signed order stricter: fewer nodes at the same time and fewer
 * failures, a longer soak and settling, proven nodes, and a pause after a rollback. The sequence of
 * nodes is the same on all of them.
 */
export function stricterOrder(signed: RollOutOrder, configured: RollOutOrder): RollOutOrder {
  const canary = signed.canary && {
    ...signed.canary,
    soakMs: Math.max(signed.canary.soakMs, configured.canary?.soakMs ?? 0),
  };
  const maxUnavailable = [...signed.maxUnavailable, ...configured.maxUnavailable];
  const onRollback = configured.onRollback === 'pause' ? 'pause' : signed.onRollback;
  const done = configured.done === 'proven' ? 'proven' : signed.done;
  const settleMs = Math.max(settleOf(signed), configured.settleMs ?? 0);
  const pauseAfterFailures = Math.min(mostFailures(signed), configured.pauseAfterFailures ?? Number.POSITIVE_INFINITY);
  return { ...signed, canary, maxUnavailable, onRollback, done, settleMs, pauseAfterFailures };
}

/** @returns milliseconds */
export function settleOf({ settleMs = SETTLE_MS }: RollOutOrder): number {
  return settleMs;
}

/** This number of failed nodes holds the others. */
export function mostFailures({ pauseAfterFailures = 1 }: RollOutOrder): number {
  return pauseAfterFailures;
}

/** Percent rounds down. At least 1. @param size of the group */
export function mostUnavailable({ maxUnavailable }: RollOutOrder, size: number): number {
  const counts = maxUnavailable.map((most) =>
    typeof most === 'number' ? most : Math.floor((size * Number(most.slice(0, -1))) / 100),
  );
  return Math.max(1, counts.length === 0 ? 1 : Math.min(...counts));
}

/** Returns the keys of the labels that the order reads. */
export function labelKeys({ controlPlane, groups, canary }: RollOutOrder): readonly string[] {
  const selectors = [...groups, ...(typeof canary?.nodes === 'string' ? [canary.nodes] : [])];
  const keys = selectors.flatMap((selector) => (requirementsOf(selector) ?? []).map(({ key }) => key));
  return [...new Set([...keys, ...(controlPlane === 'with' ? [] : [CONTROL_PLANE_LABEL])])].sort();
}

/** A kubelet can't set these labels on its Node (Kubernetes, "NodeRestriction"). */
const KEPT_FROM_KUBELETS = /^node-(?:role|restriction)\.kubernetes\.io\//;

/** Returns keys of labels that a node can set on itself to change its place. */
export function forgeableKeys(order: RollOutOrder): readonly string[] {
  return labelKeys(order).filter((key) => !KEPT_FROM_KUBELETS.test(key));
}

export type Labels = Readonly<Partial<Record<string, string>>>;

export const CONTROL_PLANE_LABEL = 'node-role.kubernetes.io/control-plane';

export function isControlPlane(labels: Labels | undefined): boolean {
  return labels !== undefined && Object.hasOwn(labels, CONTROL_PLANE_LABEL);
}

/** Nodes that a label chooses as canaries have this place. */
export const CANARY_PLACE = 0;

/**
 * Returns the place of a node by its labels. Lower places come first. Nodes with one place form a
 * group.
 */
export function placeOf({ controlPlane, groups, canary }: RollOutOrder, labels: Labels): number {
  if (typeof canary?.nodes === 'string' && selects(canary.nodes, labels)) return CANARY_PLACE;
  const group = groups.findIndex((selector) => selects(selector, labels));
  const inGroups = 1 + (group < 0 ? groups.length : group);
  if (controlPlane === 'with') return inGroups;
  const isSecond = isControlPlane(labels) === (controlPlane === 'last');
  return inGroups + (isSecond ? groups.length + 1 : 0);
}

export const MOST_GROUPS = 16;

const MOST_CHARACTERS = 1_024;
const KEY = /^(?:[a-z0-9.-]{1,253}\/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/;
const VALUE = /^(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$/;

interface Requirement {
  readonly key: string;
  /** Absent when the label only has to exist. */
  readonly value?: string;
  readonly isNot: boolean;
}

/** Accepts label selectors of Kubernetes without sets: `a=b,!c,d!=e,f`. */
export function isLabelSelector(text: string): boolean {
  return text.length <= MOST_CHARACTERS && requirementsOf(text) !== undefined;
}

function selects(selector: string, labels: Labels): boolean {
  return (requirementsOf(selector) ?? []).every(({ key, value, isNot }) => {
    const has = Object.hasOwn(labels, key) && (value === undefined || labels[key] === value);
    return has !== isNot;
  });
}

function requirementsOf(selector: string): readonly Requirement[] | undefined {
  const all = selector.split(',').map((text) => requirementOf(text.trim()));
  return all.some((one) => one === undefined) ? undefined : all.flatMap((one) => one ?? []);
}

function requirementOf(text: string): Requirement | undefined {
  const [, not, only] = /^(!?)\s*([^=!\s]+)$/.exec(text) ?? [];
  if (only !== undefined) return KEY.test(only) ? { key: only, isNot: not === '!' } : undefined;
  const [, key, operator, value] = /^([^=!\s]+)\s*(==?|!=)\s*([^=!\s]*)$/.exec(text) ?? [];
  if (key === undefined || value === undefined || !KEY.test(key) || !VALUE.test(value)) return undefined;
  return { key, value, isNot: operator === '!=' };
}

const SHARE = /^(?:100|[1-9]\d?)%$/;

export function isMaxUnavailable(value: unknown): value is MaxUnavailable {
  return typeof value === 'string' ? SHARE.test(value) : Number.isSafeInteger(value) && Number(value) >= 1;
}
