import { join } from 'node:path';
import type { Settings } from '../../domain/settings/settings.ts';
import { assertNever } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { UnitControl } from '../../ports/node.ts';
import type { MirrorAddress } from '../../runtime/config/toml-text.ts';
import { createContainerdRuntime } from '../../runtime/containerd/containerd-runtime.ts';
import { crioPathsOf } from '../../runtime/crio/crio-config.ts';
import { createCrioRuntime } from '../../runtime/crio/crio-runtime.ts';
import {
  configuredRuntime,
  createDetectedRuntime,
  detectRuntime,
  type RuntimeCandidate,
} from '../../runtime/detected-runtime.ts';
import { createDockerRuntime } from '../../runtime/docker/docker-runtime.ts';
import { createEmbeddedRuntime } from '../../runtime/embedded/embedded-runtime.ts';
import type { RuntimeAdapter } from '../../runtime/runtime-adapter.ts';

export interface RuntimeChoice {
  readonly settings: Settings;
  readonly units: UnitControl;
  readonly mirror: MirrorAddress;
  readonly arch: string;
  readonly clock: Clock;
  readonly log: Log;
}

export function createRuntime(choice: RuntimeChoice): RuntimeAdapter {
  const { runtime, crio, paths } = choice.settings;
  const { units, mirror, log, clock, arch } = choice;
  const buildCrio = ({ socketPath }: RuntimeCandidate) =>
    createCrioRuntime({
      socketPath,
      unit: crio.unit,
      units,
      mirror,
      clock,
      log,
      paths: crioPathsOf({ crio, paths }),
    });
  const buildContainerd = ({ socketPath, unitNames, certsDirectory }: RuntimeCandidate) =>
    createContainerdRuntime({
      socketPath,
      unitNames,
      ...(certsDirectory !== undefined && { certsDirectory }),
      foldersFile: join(paths.state_dir, 'mirror-folders'),
      units,
      mirror,
      clock,
    });
  const build = (candidate: RuntimeCandidate): RuntimeAdapter => {
    switch (candidate.kind) {
      case 'crio':
        return buildCrio(candidate);
      case 'containerd':
        return buildContainerd(candidate);
      case 'docker':
      case 'podman':
        return createDockerRuntime({ ...candidate, units, mirror, clock, log });
      default:
        return assertNever(candidate.kind);
    }
  };
  if (runtime.kind === 'embedded')
    return createEmbeddedRuntime({ directory: join(paths.state_dir, 'images'), mirror, arch, clock });
  const configured = (found?: RuntimeCandidate) => configuredRuntime(runtime, found);
  const chosen = configured();
  if (chosen !== undefined) return build(chosen);
  return createDetectedRuntime(detectRuntime, (found) => build(configured(found) ?? found), clock);
}
