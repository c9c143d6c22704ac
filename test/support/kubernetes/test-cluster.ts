import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createAuthority, type TestAuthority, type TestCertificate } from '../fleet/authority.ts';
import { kubeconfigText } from '../fleet/kubelet-files.ts';
import { type ApiServer, startApiServer } from './api-server/start-api-server.ts';

/** An API server with nodes, and a kubeconfig for each user. Needs openssl. */
export interface TestCluster {
  readonly server: ApiServer;
  readonly folder: string;
  /** The authority of the clients. */
  readonly authority: TestAuthority;
  /** A kubeconfig that names the certificate by its file, as kubeadm does. @returns its path */
  kubeconfigOf(name: string, certificate: TestCertificate): string;
  /** Replaces the certificate of a kubeconfig, as a kubelet does that rotates it. */
  rotate(name: string, certificate: TestCertificate): void;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Starts a {@link TestCluster} with these nodes, on an address of this machine. */
export async function startTestCluster(
  names: readonly string[] = ['n1', 'n2', 'n3'],
  host = '127.0.0.1',
): Promise<TestCluster> {
  const folder = mkdtempSync(join(tmpdir(), 'stickpin-cluster-'));
  const authority = createAuthority(folder, 'kubernetes');
  const own = createAuthority(folder, 'kube-apiserver');
  // The names of a server's certificate follow its use in the same section.
  const { certificate, key } = own.sign({
    subject: '/CN=kube-apiserver',
    use: `serverAuth\nsubjectAltName=IP:${host}`,
  });
  const server = await startApiServer({ certificate, key, clientCa: authority.certificate, host });
  for (const [at, name] of names.entries()) server.addNode(name, `10.0.0.${at + 1}`);
  const pemOf = (name: string) => join(folder, name, 'current.pem');
  const rotate = (name: string, { certificate, key }: TestCertificate) => {
    writeFileSync(`${pemOf(name)}.new`, `${certificate}${key}`, { mode: 0o600 });
    renameSync(`${pemOf(name)}.new`, pemOf(name));
  };
  return {
    server,
    folder,
    authority,
    rotate,
    kubeconfigOf: (name, client) => {
      mkdirSync(join(folder, name), { recursive: true });
      rotate(name, client);
      const path = join(folder, name, 'kubelet.conf');
      writeFileSync(path, kubeconfigText('current.pem', server.url, own.certificate));
      return path;
    },
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
