import type { VerifiedBundle } from './bundle.ts';
import { bundleName } from './bundle.ts';
import { shortDigest } from './digest.ts';
import type { Reason } from './medium.ts';
import type { StoredBundle } from './state.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

/** What adoption is judged by. */
export interface AdoptionContext {
  readonly bundles: readonly StoredBundle[];
  readonly arch: string;
  readonly now: number;
  readonly clockSynchronised: boolean;
}

/**
 * Highest sequence activated in a stream: the floor under which no unknown bundle is adopted; 0 when none was. Architecture, "Adoption": "The floor rises
 * with activation, so that a barrier release on the same stick can still be taken first".
 */
export function sequenceFloor(bundles: readonly StoredBundle[], stream: string): number {
  return bundles
    .filter((bundle) => bundle.payload.name === stream && bundle.activatedAt !== undefined)
    .reduce((floor, bundle) => Math.max(floor, bundle.payload.sequence), 0);
}

/**
 * Why a verified bundle that this node does not know yet may not be adopted, or undefined when it may. Architecture, "Adoption": "Sequence and expiry judge
 * whether an unknown bundle is adopted"; what is known is not judged again. The clauses are those of the bundle format, "Payload": `arch`, `sequence`,
 * `expires`, `created`; those about the form of a member are checked where the payload is parsed (bundle/schema.ts).
 */
export function refuseAdoption(found: VerifiedBundle, context: AdoptionContext): Reason | undefined {
  return refuseArch(found, context) ?? refuseSequence(found, context) ?? refuseTimes(found, context);
}

/** Bundle format, `arch`: must match the node. */
function refuseArch({ payload }: VerifiedBundle, { arch }: AdoptionContext): Reason | undefined {
  if (payload.arch === arch) return undefined;
  return {
    code: 'bundle/arch',
    message: `${bundleName(payload)} is made for ${payload.arch}, this node is ${arch}; bring the bundle made for ${arch}`,
  };
}

/** Bundle format, `sequence`: below the floor is refused; the same sequence with another digest too. */
function refuseSequence({ bundleId, payload }: VerifiedBundle, { bundles }: AdoptionContext): Reason | undefined {
  const floor = sequenceFloor(bundles, payload.name);
  if (payload.sequence < floor) {
    return {
      code: 'bundle/sequence',
      message: `${bundleName(payload)} has sequence ${payload.sequence}, but sequence ${floor} of ${payload.name} was activated here; an older bundle that is unknown here is not taken`,
    };
  }
  const twin = bundles.find(
    (known) =>
      known.payload.name === payload.name && known.payload.sequence === payload.sequence && known.bundleId !== bundleId,
  );
  if (twin === undefined) return undefined;
  return {
    code: 'bundle/sequence',
    message: `${bundleName(payload)} (${shortDigest(bundleId)}) has the same sequence ${payload.sequence} as ${bundleName(twin.payload)} (${shortDigest(twin.bundleId)}), which is known here; make it again with a higher --sequence`,
  };
}

/**
 * Bundle format, `created`, `expires`: "an unknown bundle that has expired is refused; the clock used never runs behind the newest `created` adopted", of
 * whatever stream; "`created` more than 24 h ahead of a synchronised clock is refused", by that clock alone.
 */
function refuseTimes({ payload }: VerifiedBundle, context: AdoptionContext): Reason | undefined {
  const newest = context.bundles.reduce((latest, bundle) => Math.max(latest, Date.parse(bundle.payload.created)), 0);
  const now = Math.max(context.now, newest);
  if (payload.expires !== undefined && Date.parse(payload.expires) <= now) {
    return {
      code: 'bundle/expired',
      message: `${bundleName(payload)} expired on ${payload.expires}; bring a newer one`,
    };
  }
  if (context.clockSynchronised && Date.parse(payload.created) > context.now + DAY_MS) {
    return {
      code: 'bundle/from-the-future',
      message: `${bundleName(payload)} says it was made on ${payload.created}, more than a day ahead of this node's synchronised clock; check the clock of the machine that made it`,
    };
  }
  return undefined;
}
