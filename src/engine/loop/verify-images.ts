import { assess } from '../../domain/assess/assess.ts';
import { trustedReleases } from '../../domain/assess/assess-order.ts';
import { documentCheckOf } from '../../domain/release/damaged-images.ts';
import { checkedImages } from '../../domain/report/parts/part-reports.ts';
import type { CheckedImage } from '../../domain/report/status-schema.ts';
import { findBundle } from '../commands/command-context.ts';
import type { Loop } from './loop.ts';
import { readContainers } from './observe.ts';

/** With what becomes of each image with the present media. @throws as `Engine.verifyImages` */
export async function verifyImages(loop: Loop, bundle: string, signal: AbortSignal): Promise<readonly CheckedImage[]> {
  const { context, contentChecker } = loop;
  const only = bundle === '' ? undefined : findBundle(context.store.load().bundles, bundle).bundleId;
  await contentChecker.checkNow(only, signal);
  await checkDocuments(loop, signal);
  const seen = await readContainers(context, signal);
  const checks = contentChecker.checks();
  loop.context.wantRound();
  const { bundles } = context.store.load();
  return checkedImages(bundles, checks, damagedNow(loop, seen?.containers), only);
}

/** Our own documents of these images may be lost, too. */
async function checkDocuments({ documentKeeper, state }: Loop, signal: AbortSignal): Promise<void> {
  if (state.snapshot === undefined) return;
  const { observed, assessment } = state.snapshot;
  await documentKeeper.checkNow(documentCheckOf(trustedReleases(assessment), observed), signal);
}

/** By the last observation, with the containers as they are now. */
function damagedNow(
  { context, state, contentChecker }: Loop,
  containers: Awaited<ReturnType<Loop['context']['containers']['containers']>> | undefined,
) {
  const { snapshot } = state;
  if (snapshot === undefined) return [];
  const memory = { ...snapshot.memory, contentChecks: contentChecker.checks() };
  return assess({ ...snapshot.observed, containers }, memory, context.store.load(), context.policy).damaged;
}
