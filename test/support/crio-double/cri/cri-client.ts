import { request } from 'node:http';
import { Client, credentials, type ServiceError } from '@grpc/grpc-js';
import { loadSync, type MethodDefinition } from '@grpc/proto-loader';
import { criProtoFile } from '../bundle.ts';

/**
 * An image as `ListImages` answers, in the proto file's own field names; 64-bit numbers are
 * strings.
 */
interface ListedImage {
  readonly id: string;
  readonly repo_tags: readonly string[];
  readonly repo_digests: readonly string[];
  readonly size: string;
  readonly pinned: boolean;
}

/**
 * A bare CRI client for tests of the double, independent of the product's own. Failures reject with
 * gRPC's `ServiceError`.
 */
export interface TestCriClient {
  call(
    service: 'ImageService' | 'RuntimeService',
    method: string,
    message: object,
    signal?: AbortSignal,
  ): Promise<unknown>;
  listImages(): Promise<readonly ListedImage[]>;
  /** Undefined when the image is not there. */
  imageStatus(image: string): Promise<ListedImage | undefined>;
  /** Resolves with the image reference of the answer. */
  pullImage(image: string, signal?: AbortSignal): Promise<string>;
  removeImage(image: string): Promise<void>;
  close(): void;
}

/** A client on a CRI socket. It connects at the first call. */
export function connectCri(socketPath: string): TestCriClient {
  const definition = loadSync(criProtoFile, { keepCase: true, longs: String, enums: String, defaults: true });
  const client = new Client(`unix:${socketPath}`, credentials.createInsecure(), {
    'grpc.max_receive_message_length': 16 * 1024 * 1024,
  });
  const call: TestCriClient['call'] = (service, method, message, signal) => {
    const methods = definition[`runtime.v1.${service}`] as Readonly<Record<string, MethodDefinition<object, object>>>;
    const { path, requestSerialize, responseDeserialize } = methods[method] ?? {};
    if (path === undefined || !requestSerialize || !responseDeserialize) throw new Error(`no ${service}.${method}`);
    return new Promise((resolve, reject) => {
      const done = (error: ServiceError | null, response?: object) => (error ? reject(error) : resolve(response));
      const running = client.makeUnaryRequest(path, requestSerialize, responseDeserialize, message, done);
      signal?.addEventListener('abort', () => running.cancel(), { once: true });
    });
  };
  const image = (name: string) => ({ image: { image: name } });
  return {
    call,
    listImages: async () => ((await call('ImageService', 'ListImages', {})) as { images: ListedImage[] }).images,
    imageStatus: async (name) => {
      const status = (await call('ImageService', 'ImageStatus', image(name))) as { image: ListedImage | null };
      return status.image ?? undefined;
    },
    pullImage: async (name, signal) => {
      const answer = (await call('ImageService', 'PullImage', image(name), signal)) as { image_ref: string };
      return answer.image_ref;
    },
    removeImage: async (name) => void (await call('ImageService', 'RemoveImage', image(name))),
    close: () => client.close(),
  };
}

/** GET over a Unix socket. Resolves with status, content type and body. */
export function getOverSocket(
  socketPath: string,
  path: string,
): Promise<{ status: number; contentType: string; body: string }> {
  return new Promise((resolve, reject) => {
    const asked = request({ socketPath, path, agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        body += chunk;
      });
      response.once('end', () =>
        resolve({ status: response.statusCode ?? 0, contentType: response.headers['content-type'] ?? '', body }),
      );
    });
    asked.once('error', reject).end();
  });
}
