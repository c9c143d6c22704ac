import { describe, expect, it } from 'vitest';
import { isImagePlaceholder } from '../../../../../src/domain/release/manifest-images.ts';

describe('a placeholder in the place of an image', () => {
  it.each([
    'auto',
    'controller:latest',
    'controller',
    'image:tag',
    `\${IMAGE}:\${TAG}`,
    '$(IMG)',
    '$IMAGE',
    'quay.io/x/web:$TAG',
    'quay.io/x/web:TAG',
    'quay.io/x/web:IMAGE_TAG',
    '%IMAGE%',
    '@IMAGE@',
    '__IMAGE__',
    'REPLACE_IMAGE',
    'REGISTRY/IMAGE:TAG',
    'YOUR_REGISTRY/web:1',
    'ko://github.com/x/y/cmd/web',
    '<image>',
    '<registry>/web:1',
    '{image}',
    '{{ .Values.image }}',
    '[[ .image ]]',
    '...',
    'replace-me',
    'image-placeholder',
    'your-registry/your-image:1',
    'myregistry/web',
  ])('is %s', (text) => {
    expect(isImagePlaceholder(text)).toBe(true);
  });

  it.each([
    'nginx',
    'nginx:1.25',
    'bitnami/redis:7',
    'NGINX:1',
    'autoscaler:1',
    'controller:v1.2',
    'ingress-nginx/controller:v1.2',
    'registry:2',
    'registry.example.com/your/app:1',
    'registry.example.com/image:1',
    'quay.io/x/web:V1',
    'quay.io/x/web:1.0-VERSION',
    'my-app:1',
    'docker://quay.io/x/web:1',
    'https://quay.io/x/web:1',
    '[fd00::1]:5000/x/web:1',
    'quay.io/X/web:1',
    `quay.io/x/web@sha256:${'0'.repeat(64)}`,
    '',
  ])('is not %j', (text) => {
    expect(isImagePlaceholder(text)).toBe(false);
  });
});
