import * as v from 'valibot';

/** The longest text in an answer. */
export const MAX_TEXT = 4_096;
/** Names of an image. */
const MAX_ITEMS = 10_000;

/** The oldest version of the API that is used, that of Docker 20.10 and of Podman 4. */
export const API_VERSION = '1.41';

const text = v.pipe(v.string(), v.maxLength(MAX_TEXT));
const texts = v.nullish(v.pipe(v.array(text), v.maxLength(MAX_ITEMS)), []);
/** dockershim and cri-dockerd write these names; the restart count changes with a restart. */
export const labelNames = {
  /** Ours: it names the pinned image by digest. */
  pin: 'io.stickpin.pin',
  sandbox: 'io.kubernetes.sandbox.id',
  restarts: 'annotation.io.kubernetes.container.restartCount',
  container: 'io.kubernetes.container.name',
  pod: 'io.kubernetes.pod.name',
  namespace: 'io.kubernetes.pod.namespace',
} as const;

/** Other labels, which a container inherits from its image, are not read. */
const labels = v.nullish(
  v.object(v.entriesFromList(Object.values(labelNames), v.exactOptional(v.pipe(v.string(), v.maxLength(MAX_TEXT))))),
  {},
);

export const versionAnswer = v.object({
  Version: text,
  ApiVersion: v.pipe(v.string(), v.regex(/^\d{1,3}\.\d{1,3}$/)),
  MinAPIVersion: v.optional(v.pipe(v.string(), v.regex(/^\d{1,3}\.\d{1,3}$/)), API_VERSION),
  Components: v.nullish(v.pipe(v.array(v.object({ Name: text })), v.maxLength(100)), []),
});

export const info = v.object({
  DockerRootDir: text,
  Driver: text,
  DriverStatus: v.nullish(v.pipe(v.array(v.array(v.string())), v.maxLength(100)), []),
});

export const createdAnswer = v.object({ Id: text });

/** `ReadOnly` is Podman's: it is of a store that it only reads, as `additionalimagestores`. */
export const image = v.object({ Id: text, RepoTags: texts, RepoDigests: texts, ReadOnly: v.optional(v.boolean()) });

export const imageDetails = v.object({
  ...image.entries,
  RootFS: v.nullish(v.object({ Layers: texts })),
  /** The parts that a container inherits. */
  Config: v.nullish(
    v.object({
      Volumes: v.nullish(v.record(v.string(), v.unknown()), {}),
      Labels: v.nullish(v.record(v.string(), v.unknown()), {}),
      Env: v.nullish(v.array(v.string()), []),
    }),
  ),
});

export const container = v.object({ Id: text, Names: texts, ImageID: text, State: text, Labels: labels });

/** Podman writes no `Type` of a mount that it does not know. */
export const containerDetails = v.object({
  Id: text,
  Name: text,
  Image: text,
  RestartCount: v.optional(v.number(), 0),
  State: v.object({ Status: text, ExitCode: v.number(), StartedAt: text }),
  Config: v.object({ Image: text, Labels: labels }),
  Mounts: v.nullish(
    v.array(v.object({ Type: v.optional(text), Name: v.optional(text), Source: v.optional(text) })),
    [],
  ),
});

export const change = v.object({ Type: text, Action: text });
export const progress = v.object({ error: v.optional(v.string()) });

export type EngineInfo = v.InferOutput<typeof info>;
export type EngineImage = v.InferOutput<typeof image>;
export type EngineImageDetails = v.InferOutput<typeof imageDetails>;
export type EngineContainer = v.InferOutput<typeof container>;
export type EngineContainerDetails = v.InferOutput<typeof containerDetails>;

/** Stands for all containers that could not be read. They may use any image. */
export const UNREAD: EngineContainer = { Id: '', Names: [], ImageID: '', State: '', Labels: {} };
