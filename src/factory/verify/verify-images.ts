import { bundleError } from '../../bundle/bundle-error.ts';
import { entriesForPlatform, indexMediaTypes, parseIndex } from '../../bundle/format/oci-schema.ts';
import { limits } from '../../bundle/limits.ts';
import { VERIFIED_ANNOTATION } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { formatReference, type Reference } from '../../domain/model/reference.ts';
import { AppError, FaultList } from '../../platform/app-error.ts';
import { clip, oneLine } from '../../platform/plain-text.ts';
import { formatCount } from '../../platform/sizes.ts';
import type { Plan, PlannedArtifact, PlannedImage } from '../images/plan-images.ts';
import { type ImageSignature, SignatureReader } from './image-signatures.ts';
import { type ImagePolicy, type Requirement, ruleFor, type SignedRequirement } from './policy-file.ts';
import { isSignedBy } from './signature-key.ts';

/** Annotations of a payload that say who signed its images. */
const MAX_LINES = 64;

interface VerifyOptions {
  readonly arch: string;
  /** May say why a signature does not travel. */
  readonly notes: readonly string[];
}

/**
 * Verifies each image under each name that was requested. Needs no network: the plan has all
 * signatures.
 *
 * @returns annotations of the payload
 * @throws AppError `bundle/source` with all images that are not verified
 */
export async function verifyImages(
  policy: ImagePolicy,
  requested: readonly Reference[],
  plan: Plan,
  options: VerifyOptions,
): Promise<Readonly<Record<string, string>>> {
  const planned = new Map([...plan.images, ...plan.artifacts].map((one) => [one.reference, one]));
  const verifier = new ImageVerifier(plan, options);
  const found = new Map<string, { readonly line: string; readonly noun: string; readonly all: Set<string> }>();
  const faults = new FaultList();
  for (const reference of requested) {
    const name = formatReference(reference);
    const digest = reference.digest ?? plan.resolved.get(name);
    const { repository } = reference;
    const image = digest && planned.get(formatReference({ repository, digest }));
    if (image === undefined) throw new TypeError(`${name} is not in the plan`);
    const { scope, requirements } = ruleFor(policy, reference, image.digest);
    const place = `${name}${reference.digest === undefined ? ` (${image.digest})` : ''} is not verified by ${policy.path}, ${scope}`;
    for (const requirement of requirements) {
      const who = await faults.of(() => verifier.check(requirement, image, reference, place));
      if (who === undefined) continue;
      const line = `${scope}: ${who}`;
      const noun = isArtifact(image) ? 'artifact' : 'image';
      const known = found.get(`${noun} ${line}`) ?? { line, noun, all: new Set() };
      known.all.add(image.reference);
      found.set(`${noun} ${line}`, known);
    }
  }
  faults.throwAny('; no bundle was made: have the images signed so, or change the policy');
  return annotationsOf([...found.values()].map(({ line, noun, all }) => `${line}: ${formatCount(all.size, noun)}`));
}

function isArtifact(one: PlannedImage | PlannedArtifact): one is PlannedArtifact {
  return 'type' in one;
}

function annotationsOf(lines: readonly string[]): Readonly<Record<string, string>> {
  const unlisted = lines.length - MAX_LINES;
  const shown = unlisted > 0 ? [...lines.slice(0, MAX_LINES - 1), `… and ${unlisted + 1} more`] : lines;
  return Object.fromEntries(
    shown.map((line, at) => [`${VERIFIED_ANNOTATION}.${at + 1}`, clip(oneLine(line), limits.textLength)]),
  );
}

class ImageVerifier {
  private readonly signatures: SignatureReader;

  constructor(
    private readonly plan: Plan,
    private readonly options: VerifyOptions,
  ) {
    this.signatures = new SignatureReader(plan.documents);
  }

  /** @returns who signed it. @throws AppError `bundle/source` that begins with `place` */
  check(requirement: Requirement, image: PlannedImage | PlannedArtifact, reference: Reference, place: string): string {
    if (requirement.type === 'insecureAcceptAnything') return 'not verified (insecureAcceptAnything)';
    if (requirement.type === 'reject') throw bundleError('bundle/source', `${place}: the policy rejects it`);
    if (isArtifact(image)) {
      const why = 'signatures of artifacts do not travel, so that only a scope with insecureAcceptAnything takes it';
      throw bundleError('bundle/source', `${place}: ${why}`);
    }
    const whys: string[] = [];
    // A signed index covers its manifests. Runtimes take nothing else from one.
    for (const subjects of [[image.digest], this.manifestsOf(image)]) {
      const found = subjects.map((subject) => this.signerOf(subject, requirement, image, reference));
      const bad = found.flatMap((one) => ('why' in one ? one.why : []));
      if (found.length > bad.length && bad.length === 0) {
        return [...new Set(found.flatMap((one) => ('who' in one ? one.who : [])))].join(' and ');
      }
      whys.push(...bad);
    }
    whys.push(...this.options.notes.filter((note) => note.includes(reference.repository)));
    throw bundleError('bundle/source', `${place}: ${clip(oneLine(whys.join('; ')), 2 * limits.textLength)}`);
  }

  private manifestsOf({ digest, mediaType, reference }: PlannedImage): Digest[] {
    const bytes = this.plan.documents.get(digest);
    if (!indexMediaTypes.has(mediaType) || bytes === undefined) return [];
    const index = parseIndex(bytes, `index of ${reference}`, 'bundle/source');
    return entriesForPlatform(index, this.options.arch).map((entry) => entry.digest);
  }

  private signerOf(
    subject: Digest,
    requirement: SignedRequirement,
    { attached = [] }: PlannedImage,
    reference: Reference,
  ): { readonly who: string } | { readonly why: string } {
    const { signatures, faults } = this.signatures.of(subject, attached);
    const whys: string[] = [];
    for (const signature of signatures) {
      try {
        checkName(signature, requirement, reference);
        return { who: signerBy(requirement, signature) };
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        whys.push(error.message);
      }
    }
    whys.push(...faults);
    return { why: whys.length === 0 ? `${subject} has no signature` : clip(whys.join('; '), limits.textLength) };
  }
}

/** @throws AppError `bundle/source` */
function signerBy({ keys, identity, root }: SignedRequirement, signature: ImageSignature): string {
  if (identity !== undefined && root !== undefined) {
    root.checkIdentity(signature, identity);
    const { oidcIssuer, subjectEmail = [], buildSignerURI = [] } = identity;
    return `signed by ${[subjectEmail, buildSignerURI].flat().join(', ')} (${oidcIssuer})`;
  }
  const by = keys.find((key) => isSignedBy(key, signature));
  if (by === undefined) {
    const why = `no ${keys.map(({ name }) => name).join(', no ')} made it`;
    throw bundleError('bundle/source', `${signature.what}: ${why}`);
  }
  root?.checkLogged(signature, by);
  return `signed by ${by.name}${root === undefined ? '' : ', logged'}`;
}

/** containers-policy.json(5), `signedIdentity`. @throws AppError `bundle/source` */
function checkName(
  { what, reference: signed }: ImageSignature,
  { signedIdentity }: SignedRequirement,
  { repository, tag }: Reference,
): void {
  const refuse = (why: string) => bundleError('bundle/source', `${what}: ${why}`);
  const rule = signedIdentity ?? 'matchRepoDigestOrExact';
  if (signed === undefined) {
    if (signedIdentity === undefined) return;
    throw refuse(`it names no repository, and signedIdentity ${rule} needs one: leave out signedIdentity`);
  }
  const isTagged = rule === 'matchRepoDigestOrExact' && tag !== undefined;
  if (signed.repository === repository && (!isTagged || signed.tag === tag)) return;
  const hint = signed.repository === repository ? ': matchRepository would accept it' : '';
  throw refuse(`it is for ${formatReference(signed)}, which signedIdentity ${rule} does not accept${hint}`);
}
