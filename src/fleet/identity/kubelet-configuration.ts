import { dirname, resolve } from 'node:path';
import * as v from 'valibot';
import { parse } from 'yaml';
import { reasonOf } from '../../platform/app-error.ts';
import { fleetError } from '../fleet-error.ts';

const kubeletConfiguration = v.object({
  kind: v.literal('KubeletConfiguration'),
  authentication: v.optional(v.object({ x509: v.optional(v.object({ clientCAFile: v.optional(v.string()) })) })),
});

/**
 * `authentication.x509.clientCAFile` of a KubeletConfiguration (kubelet.config.k8s.io/v1beta1);
 * undefined where it is not set, and for any other file.
 *
 * @throws AppError `fleet/identity` when it is no YAML
 */
export function clientCaFileOf(text: string, path: string): string | undefined {
  const result = v.safeParse(kubeletConfiguration, parseYaml(text, path));
  const file = result.success ? result.output.authentication?.x509?.clientCAFile : undefined;
  return file === undefined || file === '' ? undefined : resolve(dirname(path), file);
}

function parseYaml(text: string, path: string): unknown {
  try {
    return parse(text, { maxAliasCount: 0 });
  } catch (error) {
    throw fleetError('fleet/identity', `${path} is not YAML: ${reasonOf(error)}`, { cause: error });
  }
}
