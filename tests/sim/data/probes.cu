// Kernels whose counters were measured on an NVIDIA H200: the figures are in probes_h200.json.
#include <cuda_fp16.h>
#include <mma.h>
#define G extern "C" __global__ void

G ld_stride1(const float*x,float*y){int i=blockIdx.x*blockDim.x+threadIdx.x; y[i]=x[i*1]+1;}

G ld_stride2(const float*x,float*y){int i=blockIdx.x*blockDim.x+threadIdx.x; y[i]=x[i*2]+1;}

G ld_stride8(const float*x,float*y){int i=blockIdx.x*blockDim.x+threadIdx.x; y[i]=x[i*8]+1;}

G ld_stride32(const float*x,float*y){int i=blockIdx.x*blockDim.x+threadIdx.x; y[i]=x[i*32]+1;}

G ld_offset1(const float*x,float*y){int i=blockIdx.x*blockDim.x+threadIdx.x; y[i+1]=x[i+1]*2;}

G ld_float4(const float4*x,float4*y){int i=blockIdx.x*blockDim.x+threadIdx.x; float4 v=x[i]; v.x+=1; y[i]=v;}

G ld_half(const half*h,float*y){int i=blockIdx.x*blockDim.x+threadIdx.x; y[i]=__half2float(h[i]);}

G guarded(const float*x,float*y,int n){int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) y[i]=2*x[i];}

G sh_stride1(const float*x,float*y){__shared__ float t[32*1]; int i=threadIdx.x; t[i*1]=x[blockIdx.x*32+i]; __syncwarp(); float a=0; for(int k=0;k<32;k++) a+=t[((i+k)&31)*1]; y[blockIdx.x*32+i]=a;}

G sh_stride2(const float*x,float*y){__shared__ float t[32*2]; int i=threadIdx.x; t[i*2]=x[blockIdx.x*32+i]; __syncwarp(); float a=0; for(int k=0;k<32;k++) a+=t[((i+k)&31)*2]; y[blockIdx.x*32+i]=a;}

G sh_stride32(const float*x,float*y){__shared__ float t[32*32]; int i=threadIdx.x; t[i*32]=x[blockIdx.x*32+i]; __syncwarp(); float a=0; for(int k=0;k<32;k++) a+=t[((i+k)&31)*32]; y[blockIdx.x*32+i]=a;}

G sh_float4(const float4*x,float4*y){__shared__ float4 t[64]; int i=threadIdx.x; t[i]=x[blockIdx.x*64+i]; __syncthreads(); float4 v=t[(i*5)&63]; v.x+=1; y[blockIdx.x*64+i]=v;}

G transpose_naive(const float*x,float*y,int n){int c=blockIdx.x*32+threadIdx.x,r=blockIdx.y*8+threadIdx.y; y[c*n+r]=x[r*n+c];}

G transpose_tiled(const float*x,float*y,int n){__shared__ float t[32][32]; int c=blockIdx.x*32+threadIdx.x,r=blockIdx.y*32+threadIdx.y; for(int j=0;j<32;j+=8) t[threadIdx.y+j][threadIdx.x]=x[(r+j)*n+c]; __syncthreads(); c=blockIdx.y*32+threadIdx.x;r=blockIdx.x*32+threadIdx.y; for(int j=0;j<32;j+=8) y[(r+j)*n+c]=t[threadIdx.x][threadIdx.y+j];}

G transpose_padded(const float*x,float*y,int n){__shared__ float t[32][33]; int c=blockIdx.x*32+threadIdx.x,r=blockIdx.y*32+threadIdx.y; for(int j=0;j<32;j+=8) t[threadIdx.y+j][threadIdx.x]=x[(r+j)*n+c]; __syncthreads(); c=blockIdx.y*32+threadIdx.x;r=blockIdx.x*32+threadIdx.y; for(int j=0;j<32;j+=8) y[(r+j)*n+c]=t[threadIdx.x][threadIdx.y+j];}

G gemm_tiled16(const float*x,float*y,int n){__shared__ float a[16][16],b[16][16]; const float*A=x,*B=x+n*n; int tx=threadIdx.x,ty=threadIdx.y,r=blockIdx.y*16+ty,c=blockIdx.x*16+tx; float s=0; for(int t=0;t<n;t+=16){a[ty][tx]=A[r*n+t+tx]; b[ty][tx]=B[(t+ty)*n+c]; __syncthreads(); for(int k=0;k<16;k++) s+=a[ty][k]*b[k][tx]; __syncthreads();} y[r*n+c]=s;}

G reduce_interleaved(const float*x,float*y){__shared__ float t[256]; int i=threadIdx.x; t[i]=x[blockIdx.x*256+i]; __syncthreads(); for(int s=1;s<256;s*=2){ if(i%(2*s)==0) t[i]+=t[i+s]; __syncthreads();} if(i==0) y[blockIdx.x]=t[0];}

G wmma_global(const half*h,float*y,int n){int wn=blockIdx.x,wm=blockIdx.y; nvcuda::wmma::fragment<nvcuda::wmma::matrix_a,16,16,16,half,nvcuda::wmma::row_major> a; nvcuda::wmma::fragment<nvcuda::wmma::matrix_b,16,16,16,half,nvcuda::wmma::row_major> b; nvcuda::wmma::fragment<nvcuda::wmma::accumulator,16,16,16,float> c; nvcuda::wmma::fill_fragment(c,0.f); for(int k=0;k<n;k+=16){nvcuda::wmma::load_matrix_sync(a,h+wm*16*n+k,n); nvcuda::wmma::load_matrix_sync(b,h+n*n+k*n+wn*16,n); nvcuda::wmma::mma_sync(c,a,b,c);} nvcuda::wmma::store_matrix_sync(y+wm*16*n+wn*16,c,n,nvcuda::wmma::mem_row_major);}
